"""The paper's figures from a report's JSON and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sparsenam.errors import InputError, describe
from sparsenam.paper.curves import Curve, Density
from sparsenam.paper.optimizers import PAPER_EPOCHS
from sparsenam.paper.optimizers import SECTION as OPTIMIZERS
from sparsenam.paper.recipe import Recipe, parse_recipe
from sparsenam.paper.store import Record, shown_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = tuple[str, Callable[[], "Figure"]]
SHOWN_AGAINST_TRUTH = ("snam-default", "snam-paper", "lasso", "l1-svm", "l1-logistic", "spam")
MOST_BARS = 20
SHOWN_ALONE = ("snam-default", "snam-paper-scaled", "snam-paper")


@dataclass(frozen=True, slots=True)
class Drawing:
    """The files of the figures, and what went wrong with each figure that has none."""

    paths: tuple[Path, ...]
    failures: Mapping[str, Exception]


def check_can_draw() -> None:
    """Raise if matplotlib is not installed."""
    try:
        import sparsenam.paper.figures  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise InputError(
            describe("figures", "matplotlib", f"none ({error})", 'pip install "sparsenam[plots]"')
        ) from error


def draw_report(report: Mapping[str, object], folder: Path, stem: str) -> Drawing:
    """Draw every figure that the report has numbers for; one that fails stops no other."""
    check_can_draw()
    from sparsenam.paper.figures import save_figure

    if report["name"] == "theory":
        from sparsenam.paper.theory_drawing import theory_figures

        figures = theory_figures(report)
    else:
        figures = _comparison_figures(report)
    paths: list[Path] = []
    failures: dict[str, Exception] = {}
    for name, draw in figures:
        try:
            paths += save_figure(draw(), folder, f"{stem}-{name}")
        except Exception as error:  # whatever it is, the numbers are there and the other figures too
            failures[name] = error
    return Drawing(tuple(paths), failures)


def curves_by_method(report: Mapping[str, object], section: str) -> dict[str, list[Curve]]:
    """Return the curves of the first split, by method; a feature is kept if the record's support has it."""
    found: dict[str, list[Curve]] = {}
    for method, record in _first_split(report, section).items():
        support = cast("Sequence[str]", record["support"])
        curves = cast("Sequence[Curve]", record["curves"])
        found[method] = [cast(Curve, {**curve, "kept": curve["feature"] in support}) for curve in curves]
    return found


def histories(report: Mapping[str, object]) -> dict[str, dict[str, list[float]]]:
    """Return epochs, seconds and objective of every solver that was tried."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in _of_section(report, OPTIMIZERS):
        if record["status"] == "done":
            points = cast("Sequence[Mapping[str, float]]", record["history"])
            found[str(record["method"])] = {
                "epochs": [point["epoch"] for point in points],
                "seconds": [point["seconds"] for point in points],
                "objective": [point["loss"] + point["penalty"] for point in points],
            }
    return found


def _of_section(report: Mapping[str, object], section: str) -> list[Record]:
    return [record for record in shown_records(report) if record["section"] == section]


def _first_split(report: Mapping[str, object], section: str) -> dict[str, Record]:
    """Return the records of the first seed that have curves, by method."""
    first = cast("Sequence[int]", report["seeds"])[0]
    return {
        str(record["method"]): record
        for record in _of_section(report, section)
        if record["seed"] == first and "curves" in record
    }


def _comparison_figures(report: Mapping[str, object]) -> Iterator[Drawn]:
    recipe = parse_recipe(str(report["name"]), cast("Mapping[str, object]", report["recipe"]))
    for section in recipe.sections:
        curves = curves_by_method(report, section.name)
        if any("truth" in curve for own in curves.values() for curve in own):
            yield from _truth_figures(curves, section.name)
        else:
            yield from _plain_figures(report, section.name, curves)
    yield from _optimizer_figures(report, recipe)


def _optimizer_figures(report: Mapping[str, object], recipe: Recipe) -> Iterator[Drawn]:
    from sparsenam.paper.figures import draw_optimizers

    solvers = histories(report)
    failed = [str(record["method"]) for record in _of_section(report, OPTIMIZERS) if record["status"] != "done"]
    if solvers and recipe.optimizers is not None:
        epochs = f"{recipe.optimizers['max_epochs']} epochs, {PAPER_EPOCHS} in the paper's figure"
        words = (epochs, f"failed: {', '.join(failed)}" if failed else "")
        yield "optimizers", partial(draw_optimizers, solvers, f"{recipe.title}: training SNAM", *words)


def _truth_figures(curves: Mapping[str, list[Curve]], section: str) -> Iterator[Drawn]:
    from sparsenam.paper.figures import draw_effects_against_truth, draw_zoo

    ending = f"-{section}" if section else ""
    shown = {method: curves[method] for method in SHOWN_AGAINST_TRUTH if method in curves} or dict(curves)
    if not section:
        for method, own in shown.items():
            yield f"effects-{method}", partial(draw_effects_against_truth, own, method)
    if len(shown) > 1:
        yield f"zoo{ending}", partial(draw_zoo, shown)


def _plain_figures(
    report: Mapping[str, object], section: str, curves: Mapping[str, list[Curve]]
) -> Iterator[Drawn]:
    from sparsenam.paper.figures import draw_effects, draw_variation

    shown = [method for method in SHOWN_ALONE if method in curves] or list(curves)
    records = _first_split(report, section)
    sizes = {method: cast("Mapping[str, float]", records[method]["variation"]) for method in shown}
    ending = f"-{section}" if section else ""
    for method in shown:
        density = cast("Mapping[str, Density] | None", records[method].get("density"))
        counts = len(cast("Sequence[str]", records[method]["support"])), len(sizes[method])
        title = f"{report['title']}: {method}"
        yield (
            f"effects{ending}-{method}",
            partial(draw_effects, curves[method], title, density, counts=counts),
        )
    if shown:
        yield f"variation{ending}", partial(draw_variation, sizes, str(report["title"]), MOST_BARS)
