"""``sparsenam path``: in which order columns enter a model, and how good it is with the first few."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenam.cli.errors import readable_errors
from sparsenam.errors import InputError, describe

EPILOG = """\b
Examples:
  sparsenam path houses.csv --target price
  sparsenam path loans.parquet --target default --json > path.json"""


def path(
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file, .gz too.", show_default=False)],
    target: Annotated[str, typer.Option(help="Column to predict.", show_default=False)],
    task: Annotated[str, typer.Option(help="auto, regression, count or classification.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the folds.", min=0)] = 0,
    keep: Annotated[str | None, typer.Option(help="Columns never to drop, with commas between.")] = None,
    types: Annotated[str | None, typer.Option(help="What columns are, as in zip=category,day=date.")] = None,
    exposure: Annotated[str | None, typer.Option(help="Column of time or size over which y was counted.")] = None,
    family: Annotated[str | None, typer.Option(help="gaussian, huber, quantile, gamma, poisson, …")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Walk the regularisation path on all rows: entry order, alphas, sizes and cross-validated losses."""
    with readable_errors(debug=debug):
        from sparsenam.cli.fit import say_task
        from sparsenam.cli.options import as_list, as_types
        from sparsenam.cli.problem import Wishes, pose
        from sparsenam.cli.reading import read_file
        from sparsenam.cli.running import fit_part

        if task == "survival":
            remedy = "see the path in the report of sparsenam fit"
            raise InputError(describe("--task", "regression, count or classification", "survival", remedy))
        problem = pose(read_file(table), Wishes(target, task, family, None, exposure))
        if not as_json:
            say_task(problem)
        walker = make_walker(problem.task, as_list(keep), as_types(types), seed)
        fit_part(walker, problem.all)
        walked = describe_path(walker)
        if as_json:
            sys.stdout.write(json.dumps(walked, indent=2, ensure_ascii=False) + "\n")
        else:
            show_path(walked)


def make_walker(task: Any, keep: list[str], types: dict[str, str], seed: int) -> Any:
    """Return the estimator that walks the same path as ``sparsenam fit``, and fits nothing after it."""
    import sparsenam
    from sparsenam.estimators.fitting import RAMPS

    shared: dict[str, Any] = {"keep": keep or None, "feature_types": types or None, "random_state": seed}
    if task.kind == "classification":
        return sparsenam.RandomFeatureSNAMClassifierCV(family=task.family, width=RAMPS, verbose=False, **shared)
    return sparsenam.RandomFeatureSNAMRegressorCV(family=task.family, width=RAMPS, verbose=False, **shared)


def describe_path(walker: Any) -> dict[str, Any]:
    """Return the path as plain data: the order of entry, and a record for each alpha."""
    curve = walker.cv_curve_
    taken, best = curve.choose(walker.rule), curve.best()
    names = walker.path_.names
    known: list[str] = []
    points: list[dict[str, Any]] = []
    for place, (point, row) in enumerate(zip(walker.path_, curve.table(), strict=True)):
        kept = [names[int(feature)] for feature in sorted(point.features.tolist())]
        points.append(
            {
                "alpha": row["alpha"],
                "features": int(point.features.size),
                "cv_mean": row["mean"],
                "cv_standard_error": row["standard_error"],
                "entered": [name for name in kept if name not in known],
                "best": place == best,
                "taken": place == taken,
            }
        )
        known += [name for name in kept if name not in known]
    return {"schema": 1, "entry_order": walker.path_.entry_order(), "points": points}


def show_path(walked: dict[str, Any]) -> None:
    """Print the path: one line for each alpha, the best and the chosen one marked."""
    from sparsenam.cli.display import say, show_table

    lines = [
        (
            f"{point['alpha']:.4g}",
            str(point["features"]),
            f"{point['cv_mean']:.4g} ± {point['cv_standard_error']:.2g}",
            " ".join(word for word in ("best", "taken") if point[word]),
            ", ".join(point["entered"]),
        )
        for point in walked["points"]
    ]
    show_table(("alpha", "features", "held-out loss", "", "entered"), lines)
    say(f"order of entry: {', '.join(walked['entry_order'])}")
