"""Exceptions and warnings; each message says where, what was expected, what was got and what to do."""


class InputError(ValueError):
    """Data or a setting is not usable as given."""


class DivergenceError(ArithmeticError):
    """Training left the finite numbers."""


class CheckpointError(InputError):
    """A checkpoint file is damaged or belongs to another fit."""


class CertificateError(ValueError):
    """A solution is not as good as its certificate would say."""


class ConstantColumnWarning(UserWarning):
    """A column holds one single value, so it is left out of the model."""


def describe(where: str, expected: str, got: str, remedy: str) -> str:
    """Return one sentence in the house's order: where, expected, got, what to do."""
    return f"{where}: expected {expected}, got {got}; {remedy}."
