"""A choice in the resume file of its fit: as arrays and plain data, and back to the bit once it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import FARTHEST, Count, Size, to_plain, unpack
from sparsenam.context import ArrayForm, StageResult
from sparsenam.convex.problem import Certificate, ConvexPoint
from sparsenam.errors import require
from sparsenam.penalties import GroupLasso
from sparsenam.selection.choose import Choice, ValidatedPath
from sparsenam.selection.curve import CVCurve, Evidence
from sparsenam.selection.task import ConvexTask

Arrays = dict[str, NDArray[Any]]


def pack_choice(choice: Choice) -> StageResult:
    """Return a choice as arrays and plain data, from which `unpack_choice` makes it again to the bit."""
    certificate, validated = choice.certificate, choice.validated
    arrays = _point_arrays(choice.point, "point/") | {"groups": choice.groups}
    facts: dict[str, Any] = {
        "alpha": choice.alpha,
        "certificate": None if certificate is None else certificate.to_dict(),
        "taken": None if validated is None else validated.taken,
        "evidence": None if validated is None else to_plain(validated.evidence),
        "points": 0 if validated is None else len(validated.points),
        "optimism": 1.0 if validated is None else validated.optimism,
    }
    if choice.start is not None:
        arrays["start"] = choice.start
    if isinstance(choice.task.penalty, GroupLasso):  # its weights may come from a first fit
        arrays["penalty_weights"] = np.asarray(choice.task.penalty.weights, dtype=np.float64)
    if validated is not None:
        curve = validated.curve
        for index, point in enumerate(validated.points):
            arrays |= _point_arrays(point, f"points/{index}/")
        arrays |= {
            "curve/losses": curve.losses,
            "curve/weights": curve.weights,
            "curve/same_as": curve.same_as,
            "readmitted": validated.readmitted,
        }
    return StageResult(arrays, facts)


def unpack_choice(task: ConvexTask, stored: StageResult) -> Choice:
    """Return the stored choice as one for this task; raise `RefusalError` for what cannot be one."""
    arrays, facts = stored.arrays, stored.facts
    _check_choice(task, stored)
    if "penalty_weights" in arrays:
        weights = arrays["penalty_weights"]
        task = task.with_penalty(GroupLasso(weights if weights.ndim else float(weights)))
    validated = None
    if facts["taken"] is not None:
        points = tuple(_point(arrays, f"points/{index}/") for index in range(facts["points"]))
        curve = CVCurve(
            alphas=np.array([point.alpha for point in points]),
            supports=tuple(task.columns(point.supports[0]) for point in points),
            losses=arrays["curve/losses"],
            weights=arrays["curve/weights"],
            same_as=arrays["curve/same_as"],
            n_columns=len(task.column_names),
        )
        evidence = unpack(Evidence, facts["evidence"])
        taken, optimism = int(facts["taken"]), float(facts.get("optimism", 1.0))
        validated = ValidatedPath(task, points, curve, taken, arrays["readmitted"], evidence, optimism=optimism)
    certificate = None if facts["certificate"] is None else Certificate.from_dict(facts["certificate"])
    point = _point(arrays, "point/")
    alpha, groups = float(facts["alpha"]), arrays["groups"]
    return Choice(task, alpha, point, certificate, groups, validated, arrays.get("start"))


LARGEST_SCORE = 300.0  # of a row: hazards of two rows may differ by e to the double of it, which is still a number


@dataclass(frozen=True, slots=True)
class Facts:
    """The plain data of a choice."""

    basis: str
    alpha: Size
    certificate: Certificate | None
    taken: Count | None
    evidence: Evidence | None
    points: Count
    optimism: Size


def _check_choice(task: ConvexTask, stored: StageResult) -> None:
    """Raise `RefusalError` unless a stage holds a choice among the groups of this task."""
    facts, arrays = stored.facts, stored.arrays
    unpack(Facts, facts)
    groups, rows, points = len(task.group_names), task.prepared.weights.size, facts["points"]
    outputs = task.prepared.target.shape[1]
    require(points * groups <= sum(array.size for array in arrays.values()), "more points than are there")
    index = ArrayForm((None,), ("int64",), 0, groups - 1)
    point = {
        "alpha": ArrayForm((1,), lowest=0.0),
        "n_groups": ArrayForm((1,), ("int64",), groups, groups),
        "active": index,
        "values": ArrayForm((1, None, None, outputs), lowest=-FARTHEST, highest=FARTHEST),
        "intercepts": ArrayForm((1, outputs), lowest=-FARTHEST, highest=FARTHEST),
        "support": index,
        "gaps": ArrayForm((1,)),
        "gradient_norms": ArrayForm((groups,), lowest=0.0, finite=False),
    }
    prefixes = ["point/", *(f"points/{number}/" for number in range(points))]
    forms = {prefix + name: form for prefix in prefixes for name, form in point.items()}
    weights = arrays.get("penalty_weights")
    shape = (groups,) if weights is not None and weights.ndim else ()
    forms |= {
        "groups": index,
        "start?": ArrayForm((rows,), lowest=-LARGEST_SCORE, highest=LARGEST_SCORE),
        "penalty_weights?": ArrayForm(shape, lowest=0.0),
    }
    validated = facts["taken"] is not None
    require(validated == (facts["evidence"] is not None) == (points > 0), "a choice that cannot be")
    if validated:
        require(facts["taken"] < points, "a point that is not on the curve")
        counted = arrays["curve/weights"].size
        forms["curve/losses"] = ArrayForm((points, counted), finite=False)
        forms["curve/weights"] = ArrayForm((counted,), lowest=0.0)
        forms["curve/same_as"] = ArrayForm((points,), ("int64",), 0, points - 1)
        forms["readmitted"] = index
    stored.check(forms)
    for prefix in prefixes:
        active, values = arrays[prefix + "active"], arrays[prefix + "values"]
        rising = all(bool((np.diff(arrays[prefix + name]) > 0).all()) for name in ("active", "support"))
        require(rising and values.shape[1] == active.size, "groups that cannot be")
        require(bool(np.isin(arrays[prefix + "support"], active).all()), "groups that cannot be")
    require(bool((np.diff(arrays["groups"]) > 0).all()), "groups that cannot be")


def _point_arrays(point: ConvexPoint, prefix: str) -> Arrays:
    """Return the fit on all rows, batch 0; the fits of the folds have given their losses and are not needed again."""
    arrays: Arrays = {
        "alpha": np.array([point.alpha]),
        "n_groups": np.array([point.n_groups]),
        "active": point.active,
        "values": point.values[:1],
        "intercepts": point.intercepts[:1],
        "support": point.supports[0],
        "gaps": point.gaps[:1],
        "gradient_norms": point.gradient_norms,
    }
    return {prefix + name: array for name, array in arrays.items()}


def _point(arrays: Arrays, prefix: str) -> ConvexPoint:
    return ConvexPoint(
        alpha=float(arrays[prefix + "alpha"][0]),
        n_groups=int(arrays[prefix + "n_groups"][0]),
        active=arrays[prefix + "active"],
        values=arrays[prefix + "values"],
        intercepts=arrays[prefix + "intercepts"],
        supports=(arrays[prefix + "support"],),
        gaps=arrays[prefix + "gaps"],
        gradient_norms=arrays[prefix + "gradient_norms"],
    )
