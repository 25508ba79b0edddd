"""The paper's figures from a report's JSON and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sparsenam.errors import InputError, describe
from sparsenam.paper.curves import Curve, Density
from sparsenam.paper.optimizers import SECTION as OPTIMIZERS
from sparsenam.paper.recipe import parse_recipe
from sparsenam.paper.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sparsenam.paper.figures.theory import Recovery

Drawn = tuple[str, "Figure"]
SHOWN_AGAINST_TRUTH = ("snam-default", "snam-paper", "lasso", "l1-svm", "l1-logistic", "spam")
MOST_BARS = 20
SHOWN_ALONE = ("snam-default", "snam-paper-scaled", "snam-paper")


def draw_report(report: Mapping[str, object], folder: Path, stem: str) -> tuple[Path, ...]:
    """Draw every figure that the report has numbers for, and return the files written."""
    try:
        from sparsenam.paper.figures import save_figure
    except ImportError as error:
        raise InputError(
            describe("figures", "matplotlib", f"none ({error})", 'pip install "sparsenam[plots]"')
        ) from error
    drawn = _theory_figures(report) if report["name"] == "theory" else _comparison_figures(report)
    paths: list[Path] = []
    for name, figure in drawn:
        paths += save_figure(figure, folder, f"{stem}-{name}")
    return tuple(paths)


def curves_by_method(report: Mapping[str, object], section: str) -> dict[str, list[Curve]]:
    """Return the curves of the first split, by method."""
    records = [record for record in _done(report, section) if "curves" in record]
    return {str(record["method"]): cast("list[Curve]", record["curves"]) for record in records}


def histories(report: Mapping[str, object]) -> dict[str, dict[str, list[float]]]:
    """Return epochs, seconds and objective of every solver that was tried."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in _done(report, OPTIMIZERS):
        points = cast("Sequence[Mapping[str, float]]", record["history"])
        found[str(record["method"])] = {
            "epochs": [point["epoch"] for point in points],
            "seconds": [point["seconds"] for point in points],
            "objective": [point["loss"] + point["penalty"] for point in points],
        }
    return found


def _done(report: Mapping[str, object], section: str) -> list[Record]:
    records = cast("Sequence[Record]", report["records"])
    return [record for record in records if record["section"] == section and record["status"] == "done"]


def _comparison_figures(report: Mapping[str, object]) -> Iterator[Drawn]:
    from sparsenam.paper.figures import draw_optimizers

    recipe = parse_recipe(str(report["name"]), cast("Mapping[str, object]", report["recipe"]))
    for section in recipe.sections:
        name = section.name
        curves = curves_by_method(report, name)
        if any("truth" in curve for own in curves.values() for curve in own):
            yield from _truth_figures(curves, name)
        else:
            yield from _plain_figures(report, curves)
    solvers = histories(report)
    if solvers:
        yield "optimizers", draw_optimizers(solvers, "Training SNAM on California Housing")


def _truth_figures(curves: Mapping[str, list[Curve]], section: str) -> Iterator[Drawn]:
    from sparsenam.paper.figures import draw_effects_against_truth, draw_zoo

    ending = f"-{section}" if section else ""
    shown = {method: curves[method] for method in SHOWN_AGAINST_TRUTH if method in curves} or dict(curves)
    if not section:
        for method, own in shown.items():
            yield f"effects-{method}", draw_effects_against_truth(own, method)
    if len(shown) > 1:
        yield f"zoo{ending}", draw_zoo(shown)


def _plain_figures(report: Mapping[str, object], curves: Mapping[str, list[Curve]]) -> Iterator[Drawn]:
    from sparsenam.paper.figures import draw_effects, draw_variation

    shown = [method for method in SHOWN_ALONE if method in curves]
    records = {str(record["method"]): record for record in _done(report, "") if "curves" in record}
    for method in shown:
        density = cast("Mapping[str, Density] | None", records[method].get("density"))
        yield f"effects-{method}", draw_effects(curves[method], f"{report['title']}: {method}", density)
    if shown:
        sizes = {method: cast("Mapping[str, float]", records[method]["variation"]) for method in shown}
        drawn = sorted(sizes[shown[0]], key=lambda feature: -sizes[shown[0]][feature])[:MOST_BARS]
        yield (
            "variation",
            draw_variation(
                {method: {feature: own[feature] for feature in drawn} for method, own in sizes.items()},
                str(report["title"]),
            ),
        )


def _theory_figures(report: Mapping[str, object]) -> Iterator[Drawn]:
    from sparsenam.paper.experiments.recovery import VERSIONS
    from sparsenam.paper.figures import draw_estimation_error, draw_flows, draw_identification, draw_recovery

    summaries = cast("Mapping[str, Mapping[str, Any]]", report["summaries"])
    for name, own in _parts(summaries, "estimation", "by_estimator"):
        yield f"estimation-{name}", draw_estimation_error(own, summaries["estimation"]["theorem_slope"])
    for name, own in _parts(summaries, "recovery", "by_design"):
        grid: Recovery = {"n": own["n"], "multipliers": own["multipliers"], "probability": own["probability"]}
        theorem = [row for row in summaries["recovery"]["theory"] if row["design"] == name]
        grid["theory_lambda_ratio"] = {version: [row[version] for row in theorem] for version in VERSIONS}
        yield f"recovery-{name}", draw_recovery(grid)
    for name, own in _parts(summaries, "identification", "by_estimator"):
        yield f"identification-{name}", draw_identification(own)
    flows = {name: own for name, own in summaries.get("flows", {}).items() if _has_optimum(own)}
    if flows:
        yield "flows", draw_flows(flows)


def _parts(summaries: Mapping[str, Mapping[str, Any]], experiment: str, key: str) -> list[tuple[str, Any]]:
    return list(summaries[experiment][key].items()) if experiment in summaries else []


def _has_optimum(own: object) -> bool:
    return isinstance(own, Mapping) and "optimum" in own
