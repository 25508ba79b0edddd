"""Banks of sub-networks, pure functions of one matrix of parameters: what one is, and the paper's perceptrons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from sparsenam.codec import Array as StoredArray
from sparsenam.codec import Bounds, Count, Vector, is_sequence
from sparsenam.context import Streams
from sparsenam.errors import InputError, check_word, describe

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Array = TypeVar("Array", bound=Any)  # numpy or torch

WIDEST_LAYER = 1 << 24  # of a layer in a file
Width = Annotated[int, Bounds(1, WIDEST_LAYER)]

ACTIVATIONS: dict[str, Callable[[Vector], Vector]] = {
    "relu": lambda argument: np.maximum(argument, 0.0),
    "clipped_relu": lambda argument: np.clip(argument, 0.0, 1.0),
    "tanh": np.tanh,
    "gelu": lambda argument: argument * np.asarray(ndtr(argument), dtype=np.float64),
    "silu": lambda argument: argument * np.asarray(expit(argument), dtype=np.float64),
}
PIECEWISE_LINEAR = ("relu", "clipped_relu")
ACTIVATION_NAMES = (*ACTIVATIONS, "exu")


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


@dataclass(frozen=True, slots=True, eq=False)
class MLPBank:
    """Stacked perceptrons: biases in the hidden layers only, as in the paper's appendix D.

    ``hidden`` are the widths of the hidden layers. Where sub-networks differ, these are those of the widest, and
    ``widths`` (terms, hidden layers) has those of each: narrower ones are padded with entries that stay zero. The
    ``activation`` is a name of `ACTIVATIONS`, or ``"exu"``, whose first layer computes clip(eʷ(x - b), 0, 1) (Agarwal
    et al., 2021). After a first layer of ``"exu"`` or ``"clipped_relu"`` the others are ReLU.
    """

    hidden: Annotated[tuple[Width, ...], Bounds(0, 64)]
    outputs: Count
    activation: str
    widths: Annotated[NDArray[np.intp], StoredArray(2, 1, WIDEST_LAYER)] | None = None

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes of the tensors in the order of θ: weight and bias of each hidden layer, output weight."""
        shapes: list[tuple[int, int]] = []
        for before, after in pairwise((1, *self.hidden)):
            shapes += [(before, after), (1, after)]
        return [*shapes, ((1, *self.hidden)[-1], self.outputs)]

    @property
    def size(self) -> int:
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def output_columns(self) -> slice:
        rows, columns = self.shapes[-1]
        return slice(self.size - rows * columns, self.size)

    @property
    def activations(self) -> list[str]:
        """The name of the activation of each hidden layer."""
        clipped = self.activation in ("exu", "clipped_relu")
        first = "clipped_relu" if clipped else self.activation
        others = "relu" if clipped else first
        return [first if layer == 0 else others for layer in range(len(self.hidden))]

    @property
    def exponential_units(self) -> bool:
        """Whether the first layer computes eʷ(x - b)."""
        return self.activation == "exu" and len(self.hidden) > 0

    def tensors(self, theta: Array) -> list[Array]:
        """Return the layers' tensors as views of θ, each of shape (terms, in, out)."""
        views: list[Array] = []
        start = 0
        for rows, columns in self.shapes:
            views.append(theta[:, start : start + rows * columns].reshape(theta.shape[0], rows, columns))
            start += rows * columns
        return views

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        from sparsenam.networks.stacked import StackedPass  # and PyTorch, which only training needs

        return cast("Tensor", StackedPass.apply(theta, x, self, dropout))  # pyright: ignore[reportUnknownMemberType]

    def arguments(self, theta: Vector, x: Vector, layer: int) -> Vector:
        """Return the arguments of the units of a layer (terms, rows, units); after the hidden ones come the outputs."""
        if layer == len(self.hidden):
            return np.matmul(self.units(theta, x), self.tensors(theta)[-1])
        weight, bias = self.tensors(theta)[2 * layer : 2 * layer + 2]
        if layer > 0:
            return np.matmul(self.units(theta, x, layer), weight) + bias
        return (x[:, :, None] - bias) * np.exp(weight) if self.exponential_units else x[:, :, None] * weight + bias

    def units(self, theta: Vector, x: Vector, layers: int | None = None) -> Vector:
        """Return the units of the last of some hidden layers, by default of all, shape (terms, rows, units)."""
        layers = len(self.hidden) if layers is None else layers
        if layers == 0:
            return x[:, :, None]
        return ACTIVATIONS[self.activations[layers - 1]](self.arguments(theta, x, layers - 1))

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return random initial parameters, shape (size,).

        PyTorch's default for linear layers, U(±1/√fan-in), and normal draws for ExU.
        """
        widths = self.hidden if self.widths is None else tuple(int(width) for width in self.widths[term])
        parts: list[NDArray[np.float64]] = []
        for layer, (fan_in, fan_out) in enumerate(pairwise((1, *widths, self.outputs))):
            if layer == 0 and self.exponential_units:
                parts += [generator.normal(3.0, 0.5, fan_out), generator.normal(0.0, 1.0, fan_out)]
                continue
            bound = 1.0 / np.sqrt(fan_in)
            parts.append(generator.uniform(-bound, bound, fan_in * fan_out))
            if layer < len(widths):
                parts.append(generator.uniform(-bound, bound, fan_out))
        drawn, padding = np.concatenate(parts), self.take(np.array([term])).padding()
        if padding is None:
            return drawn
        padded = np.zeros(self.size)
        padded[~padding[0]] = drawn
        return padded

    def padding(self) -> NDArray[np.bool_] | None:
        """Return the entries of θ beyond the widths of narrower sub-networks."""
        if self.widths is None:
            return None
        inside: list[NDArray[np.bool_]] = []
        before = np.ones((len(self.widths), 1), dtype=np.bool_)
        for layer, width in enumerate(self.hidden):
            after = np.arange(width) < self.widths[:, layer, None]
            inside += [np.repeat(before, width, axis=1) & np.tile(after, before.shape[1]), after]
            before = after
        inside.append(np.repeat(before, self.outputs, axis=1))
        return ~np.concatenate(inside, axis=1)

    def take(self, terms: NDArray[np.intp]) -> Self:
        if self.widths is None:
            return self
        return type(self)(self.hidden, self.outputs, self.activation, self.widths[terms])


# Rows evaluated at once. The number is the same for every model: products of another size round differently, and
# leaving out a term must not change the others by a bit.
NETWORK_ROWS_AT_ONCE = 256


def outputs_of(bank: SubnetBank, theta: Vector, x: Vector) -> Vector:
    """Return every sub-network's output, shape (terms, rows, outputs), some rows at a time.

    Where x (terms, rows) is NaN the output is that at 0, the mean of a standardised term.
    """
    n_terms, rows = x.shape
    outputs = np.zeros((n_terms, rows, bank.outputs))
    filled = np.ascontiguousarray(np.where(np.isnan(x), 0.0, x))
    for start in range(0, rows if n_terms else 0, NETWORK_ROWS_AT_ONCE):
        part = slice(start, start + NETWORK_ROWS_AT_ONCE)
        if isinstance(bank, MLPBank):
            outputs[:, part] = bank.arguments(theta, filled[:, part], len(bank.hidden))
            continue
        import torch  # which custom sub-networks are written in

        with torch.no_grad():
            outputs[:, part] = bank.effects(torch.as_tensor(theta), torch.as_tensor(filled[:, part])).numpy()
    return outputs


Widths: TypeAlias = Sequence[int]
Hidden: TypeAlias = Widths | Mapping[str, Widths] | Callable[[Sequence[str], int], SubnetBank]


def build_bank(hidden: Hidden, names: Sequence[str], outputs: int, activation: str) -> SubnetBank:
    """Return the bank for the terms of these names.

    ``hidden`` are hidden widths, the same for every term; or widths by name, all of one depth; or a callable
    ``(names, outputs) -> SubnetBank``.
    """
    check_hidden(hidden, activation)
    if callable(hidden):
        bank = hidden(names, outputs)
        if bank.outputs != outputs:
            got = f"{bank.outputs} outputs"
            raise InputError(describe("hidden", f"a bank with {outputs} outputs", got, "use the second argument"))
        return bank
    if not isinstance(hidden, Mapping):
        return MLPBank(tuple(map(int, hidden)), outputs, activation)
    if not names:  # every column is constant
        return MLPBank((), outputs, activation)
    missing = [name for name in names if name not in hidden]
    if missing:
        got = f"none for {missing[:5]}"
        raise InputError(describe("hidden", "widths for every feature that varies", got, "add them"))
    depths = sorted({len(hidden[name]) for name in names})
    if len(depths) > 1:
        raise InputError(describe("hidden", "one depth for all features", f"depths {depths}", "make them equal"))
    widths = np.array([hidden[name] for name in names], dtype=np.intp).reshape(len(names), -1)
    return MLPBank(tuple(map(int, widths.max(axis=0, initial=0))), outputs, activation, widths)


def check_hidden(hidden: Hidden, activation: str) -> None:
    """Raise for what are no hidden widths, and for an activation that they cannot have."""
    if callable(hidden):
        return
    for widths in hidden.values() if isinstance(hidden, Mapping) else [hidden]:
        if isinstance(widths, str) or not is_sequence(widths):
            expected = "widths such as (100, 50), a mapping of names to widths, or a callable"
            raise InputError(describe("hidden", expected, repr(hidden), "choose one"))
        if any(not isinstance(width, Integral) or width < 1 for width in widths):
            raise InputError(describe("hidden", "positive whole widths", repr(hidden), "for example (100, 50)"))
    check_word("activation", activation, ACTIVATION_NAMES)


def initial_parameters(bank: SubnetBank, names: Sequence[str], streams: Streams) -> NDArray[np.float64]:
    """Return random parameters, shape (terms, size), each term's from the stream of its name."""
    rows = [bank.draw(term, streams.generator(f"init/{name}")) for term, name in enumerate(names)]
    return np.stack(rows) if rows else np.zeros((0, bank.size))
