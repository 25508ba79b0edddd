"""Several processes that train one network: each takes its share of the rows, sums are added up over all."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import current_process
from typing import Any

import torch
from torch import Tensor, distributed

from sparsenam.errors import InputError, describe

dist: Any = distributed  # most of its functions have no types

PROCESS_ROUNDING = 1e-6  # relative: what processes found in the same data differs by rounding only


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that train together: how many there are, and the place of this one among them, from 0."""

    place: int = 0
    number: int = 1

    @property
    def alone(self) -> bool:
        return self.number == 1

    def share(self, rows: slice, *, divides: bool = True) -> slice:
        """Return this process's part of some rows; where they cannot be divided the first process takes all."""
        length = rows.stop - rows.start
        first, last = (length * place // self.number for place in (self.place, self.place + 1))
        if not divides:
            first, last = (0, length) if self.place == 0 else (length, length)
        return slice(rows.start + first, rows.start + last)

    def total(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of the processes' tensors, the same bits in each of them."""
        return self._exchanged(dist.all_reduce, tensors)

    def agreed(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors of the first process, which those of the others equal up to the last bits."""
        return self._exchanged(lambda flat: dist.broadcast(flat, 0), tensors)

    def _exchanged(self, exchange: Callable[[Tensor], object], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if self.alone:
            return tensors
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        exchange(flat)
        parts = torch.split_with_sizes(flat, [tensor.numel() for tensor in tensors])
        return tuple(part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))

    def require_same(self, numbers: Mapping[str, float], device: torch.device) -> None:
        """Raise in every process unless all have these numbers, up to rounding."""
        if self.alone:
            return
        mine = torch.tensor(list(numbers.values()), dtype=torch.float64, device=device)
        lowest, highest = mine.clone(), mine.clone()
        dist.all_reduce(lowest, dist.ReduceOp.MIN)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        differing = highest - lowest > PROCESS_ROUNDING * torch.maximum(lowest.abs(), highest.abs())
        if bool(differing.any()):
            name = list(numbers)[int(differing.int().argmax())]
            expected, got = "one fit, of the same table with the same settings", f"others with another {name}"
            remedy = "give all the whole table, the same settings and one random_state"
            raise InputError(describe("several processes", expected, got, remedy))


ALONE = Processes()


@contextmanager
def joined_processes() -> Generator[Processes]:
    """Find the processes that train with this one.

    They are those of PyTorch's process group where there is one. Processes that torchrun started form one for the
    time of a training. Workers of other libraries inherit torchrun's environment and are not meant.
    """
    if not dist.is_available():
        yield ALONE
        return
    if dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
        return
    started = dist.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1
    if not started or current_process().name != "MainProcess":
        yield ALONE
        return
    store, place, number = next(dist.rendezvous("env://"))
    # keys of an earlier group are still in the store and must not be taken for those of this one
    count = store.add(f"sparsenam/groups/{place}", 1)
    prefixed = dist.PrefixStore(f"sparsenam/{count}", store)
    dist.init_process_group("gloo", store=prefixed, rank=place, world_size=number)
    try:
        dist.barrier()  # whoever leaves at once must not be gone while others still connect
        yield Processes(place, number)
    finally:
        dist.destroy_process_group()
