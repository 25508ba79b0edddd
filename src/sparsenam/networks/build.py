"""The bank and the initial parameters that the user's settings of the sub-networks give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sparsenam.context import Streams
from sparsenam.errors import InputError, check_word, describe
from sparsenam.networks.bank import SubnetBank
from sparsenam.networks.mlp import ACTIVATION_NAMES, MLPBank

Widths: TypeAlias = Sequence[int]
Hidden: TypeAlias = Widths | Mapping[str, Widths] | Callable[[Sequence[str], int], SubnetBank]


def build_bank(hidden: Hidden, names: Sequence[str], outputs: int, activation: str) -> SubnetBank:
    """Return the bank for the terms of these names.

    ``hidden`` are hidden widths, the same for every term; or widths by name, all of one depth; or a callable
    ``(names, outputs) -> SubnetBank``.
    """
    if callable(hidden):
        bank = hidden(names, outputs)
        if bank.outputs != outputs:
            got = f"{bank.outputs} outputs"
            raise InputError(describe("hidden", f"a bank with {outputs} outputs", got, "use the second argument"))
        return bank
    check_word("activation", activation, ACTIVATION_NAMES)
    if not isinstance(hidden, Mapping):
        return MLPBank(_checked(hidden), outputs, activation)
    if not names:  # every column is constant
        return MLPBank((), outputs, activation)
    missing = [name for name in names if name not in hidden]
    if missing:
        got = f"none for {missing[:5]}"
        raise InputError(describe("hidden", "widths for every feature that varies", got, "add them"))
    by_term = [_checked(hidden[name]) for name in names]
    depths = sorted({len(widths) for widths in by_term})
    if len(depths) > 1:
        raise InputError(describe("hidden", "one depth for all features", f"depths {depths}", "make them equal"))
    widths = np.array(by_term, dtype=np.intp).reshape(len(names), -1)
    return MLPBank(tuple(int(width) for width in widths.max(axis=0, initial=0)), outputs, activation, widths)


def initial_parameters(bank: SubnetBank, names: Sequence[str], streams: Streams) -> Tensor:
    """Return random parameters, shape (terms, size), each term's from the stream of its name."""
    rows = [bank.draw(term, streams.generator(f"init/{name}")) for term, name in enumerate(names)]
    return torch.as_tensor(np.stack(rows)) if rows else torch.zeros(0, bank.size, dtype=torch.float64)


def _checked(widths: Widths) -> tuple[int, ...]:
    if any(not isinstance(width, Integral) or width < 1 for width in widths):
        raise InputError(describe("hidden", "positive whole widths", f"{tuple(widths)}", "for example (100, 50)"))
    return tuple(int(width) for width in widths)
