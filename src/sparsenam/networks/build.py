"""From what a user says of the sub-networks to a bank with initial parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sparsenam.errors import InputError, describe
from sparsenam.networks.bank import SubnetBank
from sparsenam.networks.mlp import ACTIVATION_NAMES, MLPBank
from sparsenam.streams import Streams

Widths: TypeAlias = Sequence[int]
Hidden: TypeAlias = Widths | Mapping[str, Widths] | Callable[[Sequence[str], int], SubnetBank]


def build_bank(hidden: Hidden, names: Sequence[str], outputs: int, activation: str) -> SubnetBank:
    """Return the bank for these features.

    Parameters
    ----------
    hidden
        Hidden widths, the same for every feature; or widths by feature name, all of one depth; or a callable
        ``(names, outputs) -> SubnetBank``.
    """
    if callable(hidden):
        bank = hidden(names, outputs)
        if bank.outputs != outputs:
            got = f"{bank.outputs} outputs"
            raise InputError(describe("hidden", f"a bank with {outputs} outputs", got, "use the second argument"))
        return bank
    if activation not in ACTIVATION_NAMES:
        raise InputError(
            describe("activation", f"one of {sorted(ACTIVATION_NAMES)}", repr(activation), "choose a name")
        )
    if not isinstance(hidden, Mapping):
        return MLPBank(_checked(hidden), outputs, activation)
    if not names:  # every column is constant
        return MLPBank((), outputs, activation)
    missing = [name for name in names if name not in hidden]
    if missing:
        raise InputError(
            describe("hidden", "widths for every feature that varies", f"none for {missing[:5]}", "add them")
        )
    by_feature = [_checked(hidden[name]) for name in names]
    if len({len(widths) for widths in by_feature}) > 1:
        depths = sorted({len(widths) for widths in by_feature})
        raise InputError(describe("hidden", "one depth for all features", f"depths {depths}", "make them equal"))
    widths = np.array(by_feature, dtype=np.intp).reshape(len(names), -1)
    return MLPBank(tuple(int(width) for width in widths.max(axis=0, initial=0)), outputs, activation, widths)


def initial_parameters(bank: SubnetBank, names: Sequence[str], streams: Streams) -> Tensor:
    """Return random parameters, shape (features, size), each feature's from the stream of its name."""
    rows = [bank.draw(feature, streams.generator(f"init/{name}")) for feature, name in enumerate(names)]
    return torch.as_tensor(np.stack(rows)) if rows else torch.zeros(0, bank.size, dtype=torch.float64)


def _checked(widths: Widths) -> tuple[int, ...]:
    if any(not isinstance(width, Integral) for width in widths):
        got = f"{tuple(widths)}"
        raise InputError(describe("hidden", "positive whole widths", got, "for example (100, 50)"))
    whole = tuple(int(width) for width in widths)
    if any(width < 1 or width != given for width, given in zip(whole, widths, strict=True)):
        raise InputError(describe("hidden", "positive whole widths", f"{tuple(widths)}", "for example (100, 50)"))
    return whole
