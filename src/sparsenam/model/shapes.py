"""The shape of one effect: a piecewise linear function, known by its knots, which are found exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sparsenam.errors import InputError, describe
from sparsenam.networks import Dropout, MLPBank

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROWS_AT_ONCE = 32_768  # so that the numbers between two steps stay in the processor's cache
BUCKETS = 4096  # most; their table stays in the cache too
FAR_LARGER = 1000.0
ROUNDINGS = 60  # steps to the next number after which a slope that still goes too far is none
REACH = 3.0  # interquartile ranges from the quartiles of the knots to the ends of the even buckets


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """For numbers x, how many knots are not above each: the index of its piece.

    An even grid of buckets says it at once where a bucket holds no knot, after one comparison where it holds one,
    and by bisection in the others (``crowded``). The bucket of x is a rising function of x whatever the rounding,
    so the answer is exact.
    """

    knots: Vector
    low: float
    high: float
    per_unit: float
    before: NDArray[np.intp]
    crowded: NDArray[np.bool_]

    @classmethod
    def among(cls, knots: Vector) -> Self:
        """Return the search among knots of shape (m,), ascending; two or more buckets for each knot."""
        first, third = np.quantile(knots, (0.25, 0.75))
        low = max(knots[0], first - REACH * (third - first))
        high = min(knots[-1], third + REACH * (third - first))
        buckets = min(BUCKETS, 16 * 2 ** int(np.ceil(np.log2(knots.size + 1))))
        width = (high - low) / (buckets - 1)
        per_unit = 1.0 / width if width > 0 and np.isfinite(1.0 / width) else 0.0
        counts = np.bincount(bucket_of(knots, low, high, per_unit), minlength=buckets)
        return cls(np.append(knots, np.inf), float(low), float(high), per_unit, np.cumsum(counts) - counts, counts > 1)

    def pieces(self, x: Vector) -> NDArray[np.intp]:
        """Return how many knots are not above x, shape (rows,); any number from 0 to m where x is NaN."""
        buckets = bucket_of(x, self.low, self.high, self.per_unit)
        found = self.before.take(buckets, mode="clip")
        found += x >= self.knots.take(found)
        if self.crowded.any():
            hard = np.flatnonzero(self.crowded.take(buckets, mode="clip"))
            found[hard] = np.minimum(np.searchsorted(self.knots, x[hard], side="right"), self.knots.size - 1)
        return found


def bucket_of(x: Vector, low: float, high: float, per_unit: float) -> NDArray[np.intp]:
    """Return the bucket of each x, (x - low) per_unit with x cut off at low and high; any number if x is NaN."""
    across = np.clip(x, low, high)
    across -= low
    across *= per_unit
    with np.errstate(invalid="ignore"):  # NaN is no whole number
        return across.astype(np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The m + 1 straight pieces around m knots: v(x) = base + slope (x - anchor) on each.

    ``anchors`` have shape (m + 1,), ``bases`` and ``slopes`` (outputs, m + 1).
    """

    search: Search
    anchors: Vector
    bases: Matrix
    slopes: Matrix

    @classmethod
    def between(cls, knots: Vector, values: Matrix, left_slope: Vector, right_slope: Vector) -> Self:
        """Return the pieces through values (m, outputs) at knots (m,).

        A piece starts from its left end, unless the value there is far larger than that at the right end: from a
        far-off knot the value near the data would be a small difference of two huge numbers.
        """
        slopes = np.empty((values.shape[1], knots.size + 1))
        slopes[:, 0], slopes[:, -1] = left_slope, right_slope
        slopes[:, 1:-1] = (np.diff(values, axis=0) / np.diff(knots)[:, None]).T
        sizes = np.abs(values).max(axis=1)
        starts = np.concatenate([[0], np.arange(knots.size)])
        starts[1:-1] += FAR_LARGER * sizes[1:] < sizes[:-1]
        bases = np.ascontiguousarray(values[starts].T)
        ends = 2 * np.arange(knots.size - 1) + 1 - starts[1:-1]  # the knot that a piece does not start from
        _shorten(slopes[:, 1:-1], bases[:, 1:-1], knots[ends] - knots[starts[1:-1]], values[ends].T)
        return cls(Search.among(knots), knots[starts], bases, slopes)

    def values(self, x: Vector) -> Iterator[tuple[slice, int, Vector]]:
        """Yield rows, output and v there, some rows of x (rows,) at a time."""
        for start in range(0, x.size, ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, x.size))
            pieces = self.search.pieces(x[part])
            across = x[part] - self.anchors.take(pieces)
            for output in range(len(self.bases)):
                result = self.slopes[output].take(pieces)
                result *= across
                result += self.bases[output].take(pieces)
                yield part, output, result


def _shorten(slopes: Matrix, bases: Matrix, across: Vector, ends: Matrix) -> None:
    """Take from slopes (outputs, pieces) what rounding carries beyond the value at the other end of a piece.

    Then an effect whose values rise from knot to knot rises to the last bit between them too, rounding being monotone.
    """
    beyond = np.ones(slopes.shape, dtype=np.bool_)
    for _ in range(ROUNDINGS):
        beyond = (bases + slopes * across - ends) * np.sign(slopes * across) > 0
        if not beyond.any():
            return
        slopes[beyond] = np.nextafter(slopes[beyond], 0.0)
    slopes[beyond] = 0.0


def rising(knots: Vector) -> Vector:
    """Return the knots with those that rounding made equal one after the other, as near as numbers can be."""
    knots = knots.copy()
    while (equal := np.flatnonzero(np.diff(knots) <= 0)).size:
        knots[equal[0] + 1] = np.nextafter(knots[equal[0]], np.inf)
    return knots


@dataclass(frozen=True, slots=True, eq=False)
class ShapeFunction:
    """The effect of one term: linear between knots, with another slope beyond either end.

    Parameters
    ----------
    knots
        Where the slope changes, rising, shape (m,) with m ≥ 1, in the units of the encoded term.
    values
        The effect at the knots, shape (m, outputs), on the scale of the link.
    left_slope, right_slope
        Slopes below the first and above the last knot, shape (outputs,).
    absent
        What is added where the term is NaN, shape (outputs,).
    """

    knots: Vector
    values: Matrix
    left_slope: Vector
    right_slope: Vector
    absent: Vector
    _pieces: list[Pieces] = field(default_factory=list[Pieces], init=False, repr=False)

    def __post_init__(self) -> None:
        outputs = self.values.shape[1] if self.values.ndim == 2 else -1
        ends = (self.left_slope, self.right_slope, self.absent)
        if self.values.shape != (self.knots.size, outputs) or any(end.shape != (outputs,) for end in ends):
            shapes = [array.shape for array in (self.knots, self.values, *ends)]
            got, remedy = f"shapes {shapes}", "give (m,), (m, outputs) and three times (outputs,)"
            raise InputError(describe("ShapeFunction", "arrays that fit together", got, remedy))
        if not self.knots.size or not (np.diff(self.knots) > 0).all():
            raise InputError(describe("ShapeFunction", "one or more rising knots", "others", "sort them"))
        if not all(np.isfinite(array).all() for array in (self.knots, self.values, *ends)):
            raise InputError(describe("ShapeFunction", "finite numbers", "others", "correct them"))

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.values.shape[1]

    @property
    def pieces(self) -> Pieces:
        """The straight pieces, prepared at the first use."""
        if not self._pieces:
            self._pieces.append(Pieces.between(self.knots, self.values, self.left_slope, self.right_slope))
        return self._pieces[0]

    def __call__(self, x: ArrayLike) -> Matrix:
        """Return the effect at x of shape (rows,), shape (rows, outputs)."""
        column = np.ascontiguousarray(x, dtype=np.float64)
        effects = np.zeros((column.size, self.outputs))
        self.add_to(effects, column)
        return effects

    def add_to(self, total: Matrix, x: Vector) -> None:
        """Add the effect at x of shape (rows,) to ``total``, shape (rows, outputs)."""
        missing = np.flatnonzero(np.isnan(x))
        before = total[missing]
        for rows, output, values in self.pieces.values(x):
            total[rows, output] += values
        if missing.size:
            total[missing] = before + self.absent


@dataclass(frozen=True, slots=True, eq=False)
class ShapeBank:
    """Piecewise linear functions with fixed knots; a row of θ holds values at the knots and the two outer slopes.

    ``knots`` has one array (m_j,) for each term. A row of θ is ``longest`` + 2 times ``outputs`` numbers: values at
    the knots, zeros up to the most knots of a term, left slope, right slope. The effects are linear in θ.
    """

    knots: tuple[Vector, ...]
    outputs: int
    longest: int

    @classmethod
    def of(cls, shapes: Sequence[ShapeFunction], outputs: int) -> tuple[Self, Tensor]:
        """Return the bank of these shapes, and θ in double precision."""
        knots = tuple(shape.knots for shape in shapes)
        bank = cls(knots, outputs, max((each.size for each in knots), default=1))
        theta = torch.zeros(len(shapes), bank.size, dtype=torch.float64)
        for row, shape in zip(theta.view(len(shapes), bank.longest + 2, outputs), shapes, strict=True):
            row[: shape.knots.size] = torch.as_tensor(shape.values)
            row[-2], row[-1] = torch.as_tensor(shape.left_slope), torch.as_tensor(shape.right_slope)
        return bank, theta

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        return (self.longest + 2) * self.outputs

    @property
    def output_columns(self) -> slice:
        """All columns."""
        return slice(0, self.size)

    def shape(self, theta: Tensor, term: int, absent: Vector) -> ShapeFunction:
        """Return one term's shape; ``absent`` has shape (outputs,)."""
        row = theta[term].detach().double().cpu().numpy().reshape(-1, self.outputs)
        knots = self.knots[term]
        return ShapeFunction(knots, row[: knots.size].copy(), row[-2].copy(), row[-1].copy(), absent)

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return the functions at x (terms, rows), shape (terms, rows, outputs); there is nothing to drop."""
        results = [
            _through(torch.as_tensor(knots, dtype=x.dtype, device=x.device), row.view(-1, self.outputs), values)
            for knots, row, values in zip(self.knots, theta, x, strict=True)
        ]
        return torch.stack(results) if results else x.new_zeros(0, x.shape[1], self.outputs)

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return small random values at the knots, shape (size,)."""
        rows = np.zeros((self.longest + 2, self.outputs))
        used = self.knots[term].size
        rows[:used] = generator.normal(0.0, 0.1, (used, self.outputs))
        return rows.ravel()

    def padding(self) -> Tensor | None:
        """Return the entries of θ between a term's knots and ``longest``."""
        entry = torch.arange(self.longest + 2)
        sizes = torch.tensor([knots.size for knots in self.knots], dtype=torch.int64)[:, None]
        return ((entry >= sizes) & (entry < self.longest)).repeat_interleave(self.outputs, dim=1)

    def take(self, terms: NDArray[np.intp]) -> Self:
        """Return the bank of these terms, in the same layout."""
        return type(self)(tuple(self.knots[int(term)] for term in terms), self.outputs, self.longest)


def _through(knots: Tensor, row: Tensor, x: Tensor) -> Tensor:
    """Return the function at x (rows,), shape (rows, outputs), with a row of θ as (longest + 2, outputs)."""
    values = row[: knots.shape[0]]
    rises = values.diff(dim=0) / knots.diff()[:, None]
    slopes = torch.cat([row[-2:-1], rises, row[-1:]])
    pieces = torch.searchsorted(knots, x.contiguous(), right=True)
    starts = (pieces - 1).clamp_min(0)
    return values[starts] + slopes[pieces] * (x - knots[starts])[:, None]


FAR = 1e12  # standard deviations; a kink beyond belongs to a unit that is constant for every real input


def kinks_of(bank: MLPBank, theta: Tensor) -> Vector:
    """Return where the only sub-network of a piecewise linear bank may change its slope, ascending, shape (m,).

    The units of the first layer have their kinks at -b/w, and clipped ones at (1 - b)/w too. Between kinks the
    argument of every unit of the next layer is a straight line, whose zero is a kink of that layer. ``theta`` has
    shape (1, size), and m is at least 1.
    """
    *hidden, _ = (tensor[0].numpy() for tensor in bank.tensors(theta.detach().double().cpu()))
    if not hidden:
        return np.zeros(1)
    clipped = bank.activation in ("exu", "clipped_relu")
    weight, bias = hidden[0][0], hidden[1][0]
    with np.errstate(all="ignore"):
        if bank.exponential_units:
            kinks = np.concatenate([bias, bias + np.exp(-weight)])
        else:
            kinks = np.concatenate([-bias / weight, (1.0 - bias) / weight] if clipped else [-bias / weight])
    points = _sorted(kinks)
    for layer in range(1, len(bank.hidden)):
        points = _sorted(np.concatenate([points, _crossings(*_lines(bank, theta, points, layer))]))
    return points


def probes(points: Vector) -> Vector:
    """Return the points with two more beyond either end, from which the slope there follows."""
    step = 1.0 + max(abs(points[0]), abs(points[-1]))
    return np.concatenate([points[0] - step * np.array([2.0, 1.0]), points, points[-1] + step * np.array([1.0, 2.0])])


def _lines(bank: MLPBank, theta: Tensor, points: Vector, layer: int) -> tuple[Vector, Matrix]:
    """Return the points with probes beyond the ends, and the arguments of a hidden layer there (points, units)."""
    x = probes(points)
    # the network up to this layer, with the arguments of its units as outputs
    start = MLPBank(bank.hidden[:layer], bank.hidden[layer], bank.activation)
    with torch.no_grad():
        arguments = start.effects(theta[:, : start.size], torch.as_tensor(x)[None])[0].numpy()
    return x, arguments + bank.tensors(theta)[2 * layer + 1][0].numpy()


def _crossings(x: Vector, lines: Matrix) -> Vector:
    """Return where lines (points, units) through the points x are zero: between them, or beyond the ends."""
    before, after = lines[:-1], lines[1:]
    lengths = np.diff(x)[:, None]
    with np.errstate(all="ignore"):
        shares = before / (before - after)
        between = (x[:-1, None] + shares * lengths)[(before < 0) != (after < 0)]
        left = x[0] + shares[0] * lengths[0]
        right = x[-2] + shares[-1] * lengths[-1]
    return np.concatenate([between, left[left < x[0]], right[right > x[-1]]])


def _sorted(kinks: Vector) -> Vector:
    """Return the distinct kinks that a real input can reach, 0 when there are none."""
    reachable = np.unique(kinks[np.abs(kinks) <= FAR])  # NaN and infinity, of units that are constant, are not
    return reachable if reachable.size else np.zeros(1)


NEAR = 1e-12  # of the unit: kinks so close are one, unless the effect jumps between them
SAME = 1e-10  # of the effect's size: what may be lost by taking two kinks for one
DATA = 10.0  # standard deviations within which the size of an effect is measured


def shape_through(
    kinks: Vector, center: float, scale: float, effect: Callable[[Vector], Matrix], absent: Vector
) -> ShapeFunction:
    """Return the function that is linear between the kinks and equals the effect at them.

    ``kinks`` (m,) ascend, in units of ``scale`` from ``center``, the standard deviation and mean of the term.
    ``effect`` gives the effect (rows, outputs) at values (rows,) of the term, here at the knots as they are after
    rounding, so that the shape is right there to the bit. ``absent`` (outputs,) is added where the term is NaN.
    """
    points = np.unique(center + scale * probes(kinks))
    values = effect(points)
    left, right = (_slope(points[ends], values[ends]) for ends in (slice(0, 2), slice(-2, None)))
    knots, values = _merged(points[2:-2], values[2:-2], center, scale)
    return ShapeFunction(knots, values, left, right, absent)


def _slope(x: Vector, values: Matrix) -> Vector:
    return (values[1] - values[0]) / (x[1] - x[0])


def _merged(knots: Vector, values: Matrix, center: float, scale: float) -> tuple[Vector, Matrix]:
    """Return the knots without those that are the one before up to rounding, and their values."""
    away = np.abs(knots - center) / scale
    sizes = np.abs(values[away <= DATA]).max(axis=0, initial=0.0)
    near = np.diff(knots) <= NEAR * scale * (1.0 + away[1:])
    same = (np.abs(np.diff(values, axis=0)) <= SAME * sizes).all(axis=1)
    kept = np.concatenate([[True], ~(near & same)])
    return knots[kept], values[kept]
