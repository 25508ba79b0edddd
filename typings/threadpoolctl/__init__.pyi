from types import TracebackType

class LibController:
    filepath: str
    internal_api: str
    num_threads: int
    def set_num_threads(self, num_threads: int) -> None: ...
    def clear_controlling_thread(self, force: bool = False) -> None: ...  # since 3.7

class ThreadpoolController:
    lib_controllers: list[LibController]

class threadpool_limits:
    def __init__(self, limits: int | dict[str, int] | None = None, user_api: str | None = None) -> None: ...
    def restore_original_limits(self) -> None: ...
    def __enter__(self) -> threadpool_limits: ...
    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
