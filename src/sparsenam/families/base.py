"""What a family is: the cost of a prediction, how scores become predictions, and the numerics that families share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from array_api_compat import array_namespace

from sparsenam.codec import Matrix, Vector
from sparsenam.errors import InputError, RowError, describe, nearest

if TYPE_CHECKING:
    from sparsenam.families.custom import CustomLoss

Array = TypeVar("Array", bound=Any)  # numpy or torch: every formula is written once for both
SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)
Dispersion = Literal["fixed", "pearson", "pooled", "empirical"]
Response = Literal["number", "count", "amount", "binary", "classes", "labels"]


@dataclass(frozen=True, slots=True)
class TargetRange:
    """The values that y may take."""

    lowest: float = -np.inf
    highest: float = np.inf
    description: str = "finite numbers"

    def check(self, target: Matrix, where: str) -> None:
        """Raise when a value lies outside."""
        wrong = ~((target >= self.lowest) & (target <= self.highest) & np.isfinite(target))
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            got, more = ((f"{target[wrong][0]}", row),), f" ({int(wrong.sum())} such values)"
            remedy = "correct y or choose another family"
            raise RowError(f"y of {where}", self.description, got, remedy, more)


@runtime_checkable
class Family(Protocol):
    """Loss, link and range of y, and what a fit may rely on; a family inherits it and declares what differs.

    Scores and targets have shape (rows, outputs).

    - ``name``: the name that the parameter ``family`` takes.
    - ``link``: the function that turns a mean into a score; ``range``: the values that y may take.
    - ``standardizes_target``: whether y is brought to mean 0 and variance 1 before the fit.
    - ``robust_scale``: whether that is done by median and median absolute deviation: where few outliers make most of
      the variance, everything else would shrink to nothing otherwise.
    - ``curvature``: a bound on the second derivative of the loss in the scores; ∞ where there is none.
    - ``is_quadratic``: whether the loss is ½ Σₖ (score - y)², so that least squares solve it.
    - ``couples_outputs``: whether the loss is not a sum over outputs, as for softmax; `hessian_diagonal` is then the
      same for all.
    - ``response``: what y is: a number, a count, an amount, one of two classes (an output of 0 or 1), one of several
      classes (an output for each), or several labels (an output of 0 or 1 for each).
    - ``dispersion``: how the scale φ of the noise is found: it is 1 ("fixed"), by Pearson's estimate ("pearson"), or
      from the derivatives of the loss ("pooled", "empirical"); see `dispersion`.
    - ``variance_power``: the power p of the variance φ μᵖ in Pearson's estimate; 0 where that is not used.
    - ``exposure_power``: the power q such that y with mean E eˢ has the loss of y/E with mean eˢ, times E^q: a model
      with exposures E is then one without, fitted to y/E with weights w E^q. None where there is no such q.
    """

    name: str
    link: str = "identity"
    range: TargetRange = TargetRange()
    standardizes_target: bool = False
    robust_scale: bool = False
    curvature: float = np.inf
    is_quadratic: bool = False
    couples_outputs: bool = False
    response: Response = "number"
    dispersion: Dispersion = "empirical"
    variance_power: float = 0.0
    exposure_power: float | None = None

    @property
    def first_family(self) -> Family | None:
        """The family of a first fit, from which `estimated` takes a parameter; None when all are known."""
        return None

    def estimated(self, scores: Matrix, target: Matrix, weights: Vector) -> Family:
        """Return the family with its parameter estimated from the scores (rows, outputs) of the first fit."""
        return self

    def loss(self, scores: Array, target: Array) -> Array:
        """Return the loss of each row, shape (rows,)."""
        ...

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return ∂loss/∂scores, shape (rows, outputs): mean - y, unless a family says otherwise."""
        return self.mean(scores) - target

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return a diagonal bound on the Hessian of each row's loss, shape (rows, outputs)."""
        ...

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return loss*(mean - y) = sup over s of (mean - y)·s - loss(s, y), shape (rows,)."""
        ...

    def mean(self, scores: Array) -> Array:
        """Return the expected y, shape (rows, outputs): the inverse of the link, here the identity."""
        return scores

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the scores, shape (outputs,), of the best model without features, sought from y's median."""
        return best_intercept(self, np.zeros_like(target), target, weights, weighted_quantile(target, weights, 0.5))


BRACKET_STEPS = 200
ROOT_ROUNDING = 1e-14  # relative size of a step that only answers to rounding
FARTHEST_ROOT = 1e6  # from the start, in units of it or of 1: beyond, a function without zero keeps its sign
FASTER = 4.0  # growth of the longest step while no sign has changed
SEARCH = 12  # steps without a change of sign after which the longest step is taken
BRACKET_PATIENCE = 3  # steps in which the bracket must halve


def increasing_root(value: Callable[[Vector], Vector], bend: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Return s with value(s) = 0 for each entry, shape as ``start``.

    Steps have the slope ``bend``, the derivative or a bound on it, or that of the secant through the last two
    points where it is smaller; a bracket is halved whenever they are slow. Where ``value`` keeps
    one sign, the entry ends `FARTHEST_ROOT` away on the side of the zero that is missing.
    """
    point = np.array(start, dtype=np.float64)
    room = FARTHEST_ROOT * np.maximum(1.0, np.abs(point))
    first, last = point - room, point + room
    low, high = np.full_like(point, -np.inf), np.full_like(point, np.inf)
    reach, width = np.ones_like(point), np.full_like(point, np.inf)
    height, slope = value(point), bend(point)
    for number in range(1, BRACKET_STEPS + 1):
        low, high = np.where(height < 0, point, low), np.where(height > 0, point, high)
        found = np.isfinite(low) & np.isfinite(high)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            wanted = -height / slope
            small = np.abs(wanted) <= ROOT_ROUNDING * (1.0 + np.abs(point))
            strides = np.isnan(wanted) | (~found & ~small & (number > SEARCH))
            step = np.where(strides, -np.sign(height) * reach, np.clip(wanted, -reach, reach))
            middle, now = 0.5 * (low + high), high - low
            moved = np.clip(point + step, first, last)
            lost = found & ~((moved > low) & (moved < high))
            if number % BRACKET_PATIENCE == 0:
                lost |= found & (now > 0.5 * width)
                width = now
        moved = np.where(height == 0, point, np.where(lost & ~small, middle, moved))
        reach = np.where(found, np.inf, FASTER * reach)
        change = moved - point
        if np.all(np.abs(change) <= ROOT_ROUNDING * (1.0 + np.abs(point))):
            return moved
        before, height, point = height, value(moved), moved
        with np.errstate(divide="ignore", invalid="ignore"):
            secant = (height - before) / change
        slope = bend(point)
        slope = np.where(secant > 0, np.minimum(secant, slope), slope)
    return point


# e to these still leaves room for a factor of 1e47 (double) or 1e12 (single precision)
HIGHEST_DOUBLE, HIGHEST_SINGLE = 600.0, 60.0


def bounded_exp(exponent: Array, room: Array | float = 0.0) -> Array:
    """Return eˣ, constant beyond x = 600 in double and x = 60 in single precision, so never infinite.

    ``room`` is the logarithm of what it will be multiplied by, where that may be large: the bound is lower by it.
    """
    xp = array_namespace(exponent)
    is_double = float(xp.finfo(exponent.dtype).max) > 1e100
    return xp.exp(xp.clip(exponent, max=(HIGHEST_DOUBLE if is_double else HIGHEST_SINGLE) - room))


def softplus(exponent: Array) -> Array:
    """Return log(1 + eˣ); logaddexp takes twice the time."""
    xp = array_namespace(exponent)
    size = xp.abs(exponent)
    return 0.5 * (exponent + size) + xp.log1p(xp.exp(-size))


def sigmoid(scores: Array) -> Array:
    """Return σ(s) = 1/(1 + e⁻ˢ), written so that nothing overflows."""
    return 0.5 * (1.0 + array_namespace(scores).tanh(0.5 * scores))


def known_number(where: str, value: float | Literal["auto"]) -> float:
    """Return the parameter of a family as a number; raise while it is "auto", to be estimated."""
    if value == "auto":
        remedy = "call estimated() with a first fit, or give a number"
        raise InputError(describe(where, "a number by now", "'auto'", remedy))
    return float(value)


NORMAL = 1.4826022185056018  # standard deviation of a normal variable over its median absolute deviation


def weighted_quantile(target: Matrix, weights: Vector, level: float) -> Vector:
    """Return for each output the smallest y with at least ``level`` of the weight up to it, shape (outputs,)."""
    level *= 1.0 - 1e-12  # so that half of the weight is half of it whatever its rounding
    return np.quantile(target, level, axis=0, method="inverted_cdf", weights=weights)


def robust_center_and_scale(target: Matrix, weights: Vector) -> tuple[Vector, Vector]:
    """Return the weighted medians and 1.4826 median |y - median|, each of shape (outputs,).

    Where more than half of the weight lies on one value, the second would be 0 and is the standard deviation.
    """
    center = weighted_quantile(target, weights, 0.5)
    distances = np.abs(target - center)
    scale = NORMAL * weighted_quantile(distances, weights, 0.5)
    deviation = np.sqrt(np.average(distances**2, axis=0, weights=weights))
    return center, np.where(scale > 0, scale, deviation)


OUTSIDE = 1e-9  # a slope farther than this from every gradient has conjugate +∞


def numeric_conjugate(family: Family, slope: Matrix, target: Matrix, start: Matrix | None = None) -> Vector:
    """Return loss*(slope) = Σₖ sup over s of slope·s - loss(s, y), shape (rows,), +∞ outside the domain.

    The supremum is where the gradient is the slope; an error δ there costs only ½ loss''δ², so that the result is
    exact to about 1e-12. The loss must be a sum over outputs. Slope and target (…, rows, outputs) are broadcast
    against each other; ``start`` are scores near the solution, by default those equal to y.
    """
    slopes, targets = np.broadcast_arrays(slope, target)
    shape = slopes.shape
    slopes, targets = slopes.reshape(-1, 1), targets.reshape(-1, 1)
    first = targets if start is None else np.broadcast_to(start, shape).reshape(-1, 1)

    def height(scores: Matrix) -> Matrix:
        return family.gradient(scores, targets) - slopes

    scores = increasing_root(height, lambda tried: family.hessian_diagonal(tried, targets), first)
    missed = np.abs(height(scores)) > OUTSIDE * (1.0 + np.abs(slopes) + family.hessian_diagonal(scores, targets))
    values = (slopes * scores)[:, 0] - family.loss(scores, targets)
    return np.where(missed[:, 0], np.inf, values).reshape(shape).sum(axis=-1)


INTERCEPT_STEPS = 60
INTERCEPT_TOLERANCE = 1e-12


def best_intercept(family: Family, effects: Matrix, target: Matrix, weights: Vector, start: Vector) -> Vector:
    """Return argmin over β of Σᵢ wᵢ loss(yᵢ, β + effectsᵢ), shape (…, outputs), for each set of weights (…, rows).

    ``effects`` have shape (…, rows, outputs). Each output has an equation of its own, solved by guarded Newton steps;
    squared error needs one of them. Outputs that the family couples, by softmax, take Newton steps together.
    """
    shares = weights / weights.sum(axis=-1, keepdims=True)

    def slope(intercept: Vector) -> Vector:
        return np.einsum("...n,...no->...o", shares, family.gradient(effects + intercept[..., None, :], target))

    def bend(intercept: Vector) -> Vector:
        return np.einsum("...n,...no->...o", shares, family.hessian_diagonal(effects + intercept[..., None, :], target))

    intercept = np.array(start, dtype=np.float64)
    if not family.couples_outputs:
        return increasing_root(slope, bend, intercept)
    for _ in range(INTERCEPT_STEPS):
        change = slope(intercept)
        if np.abs(change).max() < INTERCEPT_TOLERANCE:
            break
        means = np.swapaxes(family.mean(effects + intercept[..., None, :]), -1, -2)
        step = np.einsum("...op,...p->...o", softmax_inverse(means, shares), change)
        # a step that changes no odds by more than e lowers the loss: softmax's third derivative allows it
        intercept -= step / np.maximum(np.ptp(step, axis=-1, keepdims=True), 1.0)
    return intercept


def softmax_inverse(means: Matrix, weights: Vector, floor: float = 1e-14) -> Matrix:
    """Return the inverse of Σᵢ wᵢ(diag(pᵢ) - pᵢpᵢᵀ) on vectors of sum 0, shape (…, classes, classes).

    ``means`` p has shape (…, classes, rows), ``weights`` (…, rows); ``floor`` is added to eigenvalues.
    """
    weighted = weights[..., None, :] * means
    totals, eye = weighted.sum(axis=-1), np.eye(means.shape[-2])
    sums = (totals + floor)[..., None] * eye - np.matmul(weighted, np.swapaxes(means, -1, -2))
    centring = eye - 1.0 / len(eye)
    inverse = np.asarray(np.linalg.inv(sums + 1.0 / len(eye)), dtype=np.float64)
    return centring @ inverse @ centring


LARGEST_SQUARE = 1e200  # of a row's squared error, whose sum is then a number
LEAST_DISPERSION = 1e-8  # of φ, and of the mean curvature that it is divided by


def dispersion(family: Family, scores: Matrix, target: Matrix, weights: Vector, freedom: float) -> float:
    """Return φ such that loss/φ is the negative log-likelihood of a row, up to a constant.

    As ``family.dispersion`` declares:

    - "fixed": 1, the loss is a negative log-likelihood.
    - "pearson": Σ w (y - μ)²/μᵖ over the rows less ``freedom``, with p the ``variance_power``.
    - "pooled": Σ w g² over Σ w h less ``freedom``, with g and h the loss's derivatives: quasi-likelihood. Poisson's
      loss has it, since counts mostly vary more: with "fixed" the loss of citations_of_patents is 3.4 times as large,
      that of stolen_bases 10 % larger, that of ticks_on_grouse 22 % smaller (benchmarks/bench_real.py).
    - "empirical": the same, for losses that are no likelihoods.
      A likelihood has E g² = φ E h. For other losses, coefficients with curvature h vary by E g²/(E h)², so that
      with this φ the curvature φ⁻¹h of loss/φ is the inverse of their variance, as a likelihood's would be: the
      median gets ¼/f(0), Huber's loss the E ψ²/E ψ' of robust regression.

    ``scores`` (rows, outputs) are those of the fit so far, ``weights`` (rows,) the number of times that each row
    counts, ``freedom`` the degrees of freedom used for each output, the intercept's included.
    """
    if family.dispersion == "fixed":
        return 1.0
    rows = max(float(weights.sum()), SMALLEST_FLOAT)
    left = max(rows - freedom, 1.0) * target.shape[1]
    if family.dispersion == "pearson":
        means = family.mean(scores)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # means of fits that went astray
            squares = (target - means) ** 2 / np.maximum(means, SMALLEST_FLOAT) ** family.variance_power
        squares = np.where(squares <= LARGEST_SQUARE, squares, LARGEST_SQUARE)
        return max(float(np.sum(weights @ squares)) / left, LEAST_DISPERSION)
    squares = float(np.sum(weights @ family.gradient(scores, target) ** 2)) / left
    bends = float(np.sum(weights @ mean_bends(family, scores, target, weights))) / (rows * target.shape[1])
    return max(squares / max(bends, LEAST_DISPERSION), LEAST_DISPERSION)


def mean_bends(family: Family, scores: Matrix, target: Matrix, weights: Vector) -> Matrix:
    """Return the second derivatives of the loss, shape (rows, outputs), smoothed for the sake of kinks.

    A loss with a kink has its curvature in few rows. Differences of the gradient over the width that a density
    estimate would take see enough of them; they also do without `hessian_diagonal`, which may be a mere bound.
    """
    if family.link != "identity":
        return family.hessian_diagonal(scores, target)
    _, spread = robust_center_and_scale(target - scores, weights)
    width = np.maximum(spread, LEAST_DISPERSION) * float(weights.sum()) ** -0.2
    return (family.gradient(scores + width, target) - family.gradient(scores - width, target)) / (2.0 * width)


# Families by name; given by name, those in `ESTIMATING` estimate a parameter from a first fit.
FAMILIES: dict[str, type[Family]] = {}
ESTIMATING: dict[str, Callable[[], Family]] = {}
METHODS = ("loss", "gradient", "hessian_diagonal", "conjugate", "mean", "best_constant")


def as_family(family: str | Family | CustomLoss, allowed: tuple[str, ...], *, estimates: bool = True) -> Family:
    """Return the family of a name among ``allowed``, the object itself, or the family of a custom loss.

    ``estimates`` is False where there is no first fit to estimate a parameter from.
    """
    if isinstance(family, Family):
        return family
    if not isinstance(family, str):
        if not all(callable(getattr(family, name, None)) for name in METHODS):
            from sparsenam.families.custom import custom_family  # which builds on this file

            return custom_family(family, tuple(FAMILIES))
        missing = [name for name in (*Family.__annotations__, "first_family", "estimated") if not hasattr(family, name)]
        where, got = f"family {type(family).__name__}", f"no {' and no '.join(missing)}"
        raise InputError(describe(where, "the attributes of a family", got, "inherit Family or declare them"))
    if family not in allowed:
        remedy = nearest(family, allowed, "choose a name or an object")
        raise InputError(describe("family", f"one of {sorted(allowed)}", repr(family), remedy))
    return (ESTIMATING if estimates and family in ESTIMATING else FAMILIES)[family]()
