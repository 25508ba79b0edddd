"""The stage file of a fit: its choices of features in full, so that a stopped fit goes on to the same bits."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.certificate import Certificate
from sparsenam.convex.path import ConvexPoint
from sparsenam.errors import CheckpointError, describe
from sparsenam.files import write_atomically
from sparsenam.selection import CVCurve
from sparsenam.selection.choose import ConvexTask, FeatureChoice

Arrays = dict[str, NDArray[Any]]


class StageFile:
    """The choices that a fit made, in order; some families need two."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint

    def write(self, choices: Sequence[FeatureChoice]) -> None:
        """Store the choices; the file is at every moment a whole one."""
        arrays: Arrays = {}
        certificates: list[dict[str, Any] | None] = []
        for place, choice in enumerate(choices):
            arrays |= pack_choice(choice, f"{place}/")
            certificates.append(None if choice.certificate is None else choice.certificate.to_dict())
        facts = {"fingerprint": self.fingerprint, "certificates": certificates}
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, facts=np.array(json.dumps(facts)), **arrays)
        write_atomically(self.path, buffer.getvalue())

    def read(self) -> Stored | None:
        """Return what is stored, None when there is no file; refuse a damaged file and one of another fit."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays: Arrays = {name: file[name] for name in file.files}
            facts = json.loads(str(arrays.pop("facts")))
            found, certificates = facts["fingerprint"], facts["certificates"]
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            got, remedy = f"a file that does not read ({error})", "delete it, or fit without --resume"
            raise CheckpointError(describe(str(self.path), "a stage of a fit", got, remedy)) from error
        if found != self.fingerprint:
            expected, remedy = "a stage of this fit", "fit without --resume, or give the same table and options"
            raise CheckpointError(describe(str(self.path), expected, "one of other data or options", remedy))
        return Stored(arrays, certificates)


class Stored:
    """Choices read from a stage file, waiting for the tasks they belong to."""

    def __init__(self, arrays: Arrays, certificates: list[Mapping[str, Any] | None]) -> None:
        self._arrays = arrays
        self._certificates = certificates

    def choice(self, place: int, task: ConvexTask) -> FeatureChoice | None:
        """Return the choice at a place as one for this task, None when the fit had not come so far."""
        if place >= len(self._certificates):
            return None
        facts = self._certificates[place]
        own = {
            name.removeprefix(f"{place}/"): array
            for name, array in self._arrays.items()
            if name.startswith(f"{place}/")
        }
        curve = None
        if "curve/losses" in own:
            curve = CVCurve(
                own["curve/alphas"],
                tuple(_parts(own, "curve/supports")),
                own["curve/losses"],
                own["curve/weights"],
                own["curve/fold_sizes"],
            )
        point = _point(own, "point/")
        count = int(own["points"].item())
        points = tuple(_point(own, f"points/{number}/") for number in range(count))
        certificate = None if facts is None else Certificate.from_dict(facts)
        return FeatureChoice(task, float(own["alpha"].item()), point, certificate, curve, points)


def pack_choice(choice: FeatureChoice, prefix: str) -> Arrays:
    """Return a choice as arrays by name."""
    arrays: Arrays = {"alpha": np.array(choice.alpha), "points": np.array(len(choice.points))}
    arrays |= _point_arrays(choice.point, "point/")
    for number, point in enumerate(choice.points):
        arrays |= _point_arrays(point, f"points/{number}/")
    if choice.curve is not None:
        curve = choice.curve
        arrays |= {
            "curve/alphas": curve.alphas,
            "curve/losses": curve.losses,
            "curve/weights": curve.weights,
            "curve/fold_sizes": curve.fold_sizes,
            "curve/supports": _joined(curve.supports),
            "curve/supports/sizes": np.array([own.size for own in curve.supports], dtype=np.intp),
        }
    return {prefix + name: array for name, array in arrays.items()}


def _point_arrays(point: ConvexPoint, prefix: str) -> Arrays:
    """Return the fit on all rows, batch 0; the folds' own fits have given their losses and are not needed again."""
    arrays: Arrays = {
        "alpha": np.array(point.alpha),
        "n_features": np.array(point.n_features),
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
        alpha=float(arrays[prefix + "alpha"].item()),
        n_features=int(arrays[prefix + "n_features"].item()),
        active=arrays[prefix + "active"],
        values=arrays[prefix + "values"],
        intercepts=arrays[prefix + "intercepts"],
        supports=(arrays[prefix + "support"],),
        gaps=arrays[prefix + "gaps"],
        gradient_norms=arrays[prefix + "gradient_norms"],
    )


def _joined(parts: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
    return np.concatenate([np.zeros(0, dtype=np.intp), *parts])


def _parts(arrays: Arrays, name: str) -> list[NDArray[np.intp]]:
    return np.split(arrays[name], np.cumsum(arrays[f"{name}/sizes"])[:-1])
