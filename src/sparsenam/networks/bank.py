"""What a bank of sub-networks is: pure functions of one matrix of parameters; and the one that settings give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Streams
from sparsenam.errors import InputError, check_word, describe
from sparsenam.networks.mlp import ACTIVATION_NAMES, MLPBank

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Vector = NDArray[np.float64]


class Dropout:
    """Random dropping of hidden units: a share of them is set to zero, the others are scaled up."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        self.share = share
        self.generator = generator

    def mask(self, like: Tensor) -> Tensor:
        """Return zeros and 1/(1 - share), in the shape and type of ``like``."""
        kept = like.new_empty(like.shape).bernoulli_(1.0 - self.share, generator=self.generator)
        return kept.div_(1.0 - self.share)


class SubnetBank(Protocol):
    """One sub-network for each term, all with one layout of parameters.

    The parameters θ are a matrix of shape (terms, size): a row is a sub-network, so a norm is a reduction
    along a row, pruning is taking rows, and a proximal step multiplies rows. The bank itself holds no
    parameters. Any object with these members is a bank; give ``hidden`` a callable
    ``(names, outputs) -> SubnetBank`` that returns it.
    """

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        ...

    @property
    def outputs(self) -> int:
        """Number of outputs of each sub-network."""
        ...

    @property
    def output_columns(self) -> slice:
        """The columns of θ that hold the output layer; the effects are linear in them."""
        ...

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return the outputs, shape (terms, rows, outputs), for x of shape (terms, rows)."""
        ...

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return random initial parameters of one sub-network, shape (size,)."""
        ...

    def padding(self) -> NDArray[np.bool_] | Tensor | None:
        """Return which entries of θ must stay zero, boolean, the shape of θ; None when there are none."""
        ...

    def take(self, terms: NDArray[np.intp]) -> Self:
        """Return the bank of these terms alone, in the same layout."""
        ...


# Rows evaluated at once. The number is the same for every model: products of another size round differently, and
# leaving out a term must not change the others by a bit.
ROWS_AT_ONCE = 256


def outputs_of(bank: SubnetBank, theta: Vector, x: Vector) -> Vector:
    """Return every sub-network's output, shape (terms, rows, outputs), some rows at a time.

    Where x (terms, rows) is NaN the output is that at 0, the mean of a standardised term.
    """
    n_terms, rows = x.shape
    outputs = np.zeros((n_terms, rows, bank.outputs))
    absent = np.isnan(x)
    filled = np.ascontiguousarray(np.where(absent, 0.0, x) if absent.any() else x)
    for start in range(0, rows if n_terms else 0, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        outputs[:, part] = _values(bank, theta, filled[:, part])
    return outputs


def _values(bank: SubnetBank, theta: Vector, x: Vector) -> Vector:
    if isinstance(bank, MLPBank):
        return bank.values(theta, x)
    import torch  # which custom sub-networks are written in

    with torch.no_grad():
        return bank.effects(torch.as_tensor(theta), torch.as_tensor(x)).numpy()


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


def initial_parameters(bank: SubnetBank, names: Sequence[str], streams: Streams) -> NDArray[np.float64]:
    """Return random parameters, shape (terms, size), each term's from the stream of its name."""
    rows = [bank.draw(term, streams.generator(f"init/{name}")) for term, name in enumerate(names)]
    return np.stack(rows) if rows else np.zeros((0, bank.size))


def _checked(widths: Widths) -> tuple[int, ...]:
    if any(not isinstance(width, Integral) or width < 1 for width in widths):
        raise InputError(describe("hidden", "positive whole widths", f"{tuple(widths)}", "for example (100, 50)"))
    return tuple(int(width) for width in widths)
