"""The paper's figures: effects by the product's plots from explanations, rates and histories as lines."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from paper.experiments import summaries_of
from paper.fitted import FittedMethod
from paper.lines import (
    FONT,
    Lines,
    draw_estimation,
    draw_flows,
    draw_histories,
    draw_lines,
    draw_recovery,
    new_sheet,
    plain,
)
from paper.recipe import Recipe, Section, parse_recipe
from paper.records import Store, shown_records
from paper.tables import OPTIMIZERS, PAPER_EPOCHS
from paper.tasks import SYNTHETIC, Split, Task
from sparsenam.explain import Curve, Density, Dropped, Explanation, Feature
from sparsenam.explain.plots import plot_importance, plot_shapes, plot_truth
from sparsenam.files import write_atomically

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Drawn = tuple[str, Callable[[], Figure]]
Truth = Mapping[str, tuple[Vector, Vector]]
SHOWN_AGAINST_TRUTH = ("snam-default", "snam-paper", "lasso", "l1-svm", "l1-logistic", "spam")
SHOWN_ALONE = ("snam-default", "snam-paper-scaled", "snam-paper")
MOST_EFFECTS, MOST_BARS, MOST_TRUE = 16, 20, 5
POINTS, BINS = 200, 40
FEW = 20  # a column with no more distinct values is drawn at these values
EDGES = (0.005, 0.995)  # quantiles between which a curve is drawn: outliers would squeeze the rest
LEAST_RANGE = 0.1  # of the widest column of panels: rounding would look like an effect
DPI, COLOURS = 100, 64  # of a PNG


@dataclass(frozen=True, slots=True)
class Drawing:
    """The files of the figures, and what went wrong with each figure that has none."""

    paths: tuple[Path, ...]
    failures: Mapping[str, Exception]


def explanation_of(fitted: FittedMethod, split: Split) -> Explanation:
    """Return what the product's plots draw, for any method: hⱼ(x) - meanᵢ hⱼ(Xᵢⱼ) on a grid, a curve a kept column.

    The grid runs over the middle 99 % of the training rows, or is the column's values where these are few.
    """
    X = split.train.X
    at_rows = fitted.effects(X)
    centred: Matrix = at_rows - at_rows.mean(axis=0)
    variation: Vector = np.ptp(fitted.effects(np.concatenate([X, split.test.X])), axis=0)
    grids = [_grid(column) for column in X.T]
    longest = max(map(len, grids))
    # in an additive model the other columns do not matter: all grids are one table
    probe = np.column_stack([np.pad(grid, (0, longest - len(grid)), mode="edge") for grid in grids])
    curves = fitted.effects(probe) - at_rows.mean(axis=0)
    features = [
        _feature(split.names[j], X[:, j], grids[j], curves[: len(grids[j]), j], centred[:, j], float(variation[j]))
        for j in fitted.support
    ]
    regression = split.kind == "regression"
    return Explanation(
        task=split.kind,
        target=None,
        outputs=("y",),
        link="identity" if regression else "logit",
        units="y" if regression else "log odds",
        intercept=(0.0,),
        features=tuple(sorted(features, key=lambda feature: -feature.mean_absolute)),
        dropped=tuple(Dropped(name, "") for j, name in enumerate(split.names) if j not in fitted.support),
        card={},
    )


def _feature(name: str, column: Vector, grid: Vector, effect: Vector, at_rows: Vector, variation: float) -> Feature:
    """Return a column's part: its values (rows,), its curve (points,), its centred effect at the rows (rows,)."""
    return Feature(
        name=name,
        kind="number",
        mean_absolute=float(np.mean(np.abs(at_rows))),
        variation=variation,
        norm=float(np.sqrt(np.mean(at_rows**2))),
        entry=None,
        curve=Curve(_numbers(grid), tuple((value,) for value in _numbers(effect))),
        density=_density(column, grid),
        levels=None,
        missing=None,
        substitutes={},
        reason="",
    )


def _grid(column: Vector) -> Vector:
    values = np.unique(column)
    if len(values) <= FEW:
        return values
    low, high = np.quantile(column, EDGES)
    if low == high:  # more than 99 % of the rows hold one value
        low, high = values[0], values[-1]
    return np.linspace(float(low), float(high), POINTS)


def _density(column: Vector, grid: Vector) -> Density | None:
    """Return a histogram over the range of the grid, a bin a value where these are few."""
    if len(grid) < 2:
        return None
    edges: Vector = np.linspace(float(grid[0]), float(grid[-1]), BINS + 1)
    if len(grid) <= FEW:
        middles = (grid[:-1] + grid[1:]) / 2
        edges = np.concatenate([[grid[0]], middles, [grid[-1]]])
    return Density(_numbers(edges), tuple(int(count) for count in np.histogram(column, edges)[0]))


def _numbers(values: Vector) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def draw_report(store: Store, folder: Path) -> Drawing:
    """Draw every figure that the records and the cache have numbers for; one that fails stops no other."""
    theory = store.report()["name"] == "theory"
    paths: list[Path] = []
    failures: dict[str, Exception] = {}
    for name, draw in theory_figures(store) if theory else comparison_figures(store):
        try:
            paths.append(save_figure(draw(), folder / f"{store.path.stem}-{name}.png"))
        except Exception as error:  # whatever it is, the numbers are there and the other figures too
            failures[name] = error
    return Drawing(tuple(paths), failures)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG with few colours, whole or not at all; the same figure gives the same bytes on every day."""
    stream, small = io.BytesIO(), io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI)  # pyright: ignore[reportUnknownMemberType]
    Image.open(stream).convert("RGB").quantize(COLOURS).save(small, format="png", optimize=True)
    write_atomically(path, small.getvalue())
    return path


def comparison_figures(store: Store) -> Iterator[Drawn]:
    """Yield a name and a drawing for each figure of a comparison."""
    report = store.report()
    recipe = parse_recipe(str(report["name"]), report["recipe"])
    for section in recipe.sections:
        ending = f"-{section.name}" if section.name else ""
        explanations = explanations_of(store, section)
        truth = _truth(section, report["seeds"][0])
        if truth is not None:
            shown = {name: explanations[name] for name in SHOWN_AGAINST_TRUTH if name in explanations}
            if shown or explanations:
                yield f"zoo{ending}", partial(draw_zoo, shown or explanations, truth)
        elif explanations:
            alone = [name for name in SHOWN_ALONE if name in explanations] or list(explanations)
            for name in alone:
                title = f"{report['title']}: {name}"
                yield f"effects{ending}-{name}", partial(draw_effects, explanations[name], title)
            yield f"variation{ending}", partial(draw_variation, {name: explanations[name] for name in alone})
    yield from _optimizer_figure(store, recipe)


def explanations_of(store: Store, section: Section) -> dict[str, Explanation]:
    """Return the explanations of the first split that keep something, by method."""
    found: dict[str, Explanation] = {}
    for record in shown_records(store.report()):
        first = record["seed"] == store.report()["seeds"][0]
        drawing = store.drawing(record) if first and record["section"] == section.name else None
        if drawing is not None:
            explanation = Explanation.from_dict(drawing)
            if explanation.features:
                found[str(record["method"])] = explanation
    return found


def _truth(section: Section, seed: int) -> Truth | None:
    """Return x and the true effect at the training rows of the first columns, None where it is not known."""
    if section.task.get("dataset") not in SYNTHETIC:
        return None
    split = Task(section.task).split(seed)
    assert split.truth_of is not None
    effects = split.truth_of(split.train.X)
    return {name: (split.train.X[:, j], effects[:, j]) for j, name in enumerate(split.names[:MOST_TRUE])}


def draw_effects(explanation: Explanation, title: str) -> Figure:
    """Draw the largest effects over the density of the data, under a title."""
    figure = plot_shapes(explanation, MOST_EFFECTS)
    figure.suptitle(plain(f"{title}\n{figure.get_suptitle()}"), fontsize=FONT + 2)  # pyright: ignore[reportUnknownMemberType]
    return figure


def draw_variation(explanations: Mapping[str, Explanation]) -> Figure:
    """Draw max - min of each effect as bars, a panel a method."""
    most = max(min(MOST_BARS, len(explanation.features)) for explanation in explanations.values())
    figure, axes = new_sheet(1, len(explanations), 4.2, 1.1 + 0.24 * most)
    for panel, (method, explanation) in zip(axes[0], explanations.items(), strict=True):
        plot_importance(explanation, MOST_BARS, measure="variation", ax=panel)
        panel.set_title(plain(method), fontsize=FONT)
    return figure


def draw_zoo(explanations: Mapping[str, Explanation], truth: Truth) -> Figure:
    """Draw the effects of several methods over the truth: a row a method, a column of one scale a feature."""
    figure, axes = new_sheet(len(explanations), len(truth), 1.9, 1.45, share="col")
    for row, (method, explanation) in enumerate(explanations.items()):
        plot_truth(explanation, truth, axes=axes[row])
        for column, (panel, name) in enumerate(zip(axes[row], truth, strict=True)):
            panel.set_xlabel("")
            panel.set_ylabel(plain(method) if column == 0 else "", fontsize=FONT)
            if row == 0:
                panel.set_title(plain(name), fontsize=FONT)
            elif panel.get_legend() is not None:
                panel.get_legend().remove()
    ranges = [panel.get_ylim() for panel in axes[0]]
    least = LEAST_RANGE * max(high - low for low, high in ranges)
    for panel, (low, high) in zip(axes[0], ranges, strict=True):
        if high - low < least:
            panel.set_ylim((low + high - least) / 2, (low + high + least) / 2)
    return figure


def _optimizer_figure(store: Store, recipe: Recipe) -> Iterator[Drawn]:
    records = [record for record in shown_records(store.report()) if record["section"] == OPTIMIZERS]
    drawings = {str(record["method"]): store.drawing(record) for record in records if record["status"] == "done"}
    histories = {solver: drawing["history"] for solver, drawing in drawings.items() if drawing is not None}
    failed = [str(record["method"]) for record in records if record["status"] != "done"]
    if histories and recipe.optimizers is not None:
        epochs = f"{recipe.optimizers['max_epochs']} epochs, {PAPER_EPOCHS} in the paper's figure"
        title = "\n".join(
            [f"{recipe.title}: training SNAM", epochs, *([f"failed: {', '.join(failed)}"] * bool(failed))]
        )
        yield "optimizers", partial(draw_histories, histories, title)


def theory_figures(store: Store) -> Iterator[Drawn]:
    """Yield a name and a drawing for each part of each experiment."""
    summaries = summaries_of(store.report())
    for name, points in summaries.get("estimation", {}).get("by_estimator", {}).items():
        slope = summaries["estimation"]["theorem_slope"]
        yield f"estimation-{name}", partial(draw_estimation, points, slope)
    for design, grid in summaries.get("recovery", {}).get("by_design", {}).items():
        theory = [row for row in summaries["recovery"]["theory"] if row["design"] == design]
        yield f"recovery-{design}", partial(draw_recovery, grid, theory)
    for name, points in summaries.get("identification", {}).get("by_estimator", {}).items():
        lines = {effect: (points["n"], errors) for effect, errors in points["error"].items() if any(errors)}
        yield f"identification-{name}", partial(draw_lines, [Lines("rows n", "error of the effect", lines)])
    levels = summaries.get("consistency", {}).get("epsilons", [])
    for name, points in summaries.get("consistency", {}).get("by_estimator", {}).items():
        shares = {
            f"ε = {level:g}": (points["n"], [entries[i] for entries in points["share"]])
            for i, level in enumerate(levels)
        }
        yield (
            f"consistency-{name}",
            partial(draw_lines, [Lines("rows n", "share of fresh rows with |f - h| ≥ ε", shares)]),
        )
    for kind in ("convex", "network"):
        traces = {}
        for record in store.records():
            cell = record.get("result", {}).get("cell", {})
            trace = store.drawing(record) if record["section"] == "flows" and cell.get("kind") == kind else None
            if trace is not None:
                traces[cell["method"]] = trace, record["result"]
        if traces:
            yield f"flows-{kind}", partial(draw_flows, traces)
