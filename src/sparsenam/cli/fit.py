"""``sparsenam fit`` and ``sparsenam path``: from a table to a model, or only to the order of its columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sparsenam.cli import INTERRUPTED
from sparsenam.cli.display import note, plain_number, say, say_json
from sparsenam.cli.options import MAX_BYTES, AsJson, Event, MaxBytes, TableFile, Weights, as_list
from sparsenam.errors import InputError, describe

if TYPE_CHECKING:
    from sparsenam.cli.problem import TargetKind, TargetRequest
    from sparsenam.cli.run import FitRequest, Left, ModelFolder, Posed
    from sparsenam.codec import Plain
    from sparsenam.estimators import AdditiveEstimator

FIT_EPILOG = """\b
Examples:
  sparsenam fit houses.csv --target price
  sparsenam fit houses.csv --target price --pairs auto --drop id,note
  sparsenam fit genes.csv --target dose --fdr 0.1
  sparsenam fit loans.parquet --target default --types zip=category --out loans
  sparsenam fit claims.csv.gz --target claims --task count --exposure years --shape age=decreasing
  sparsenam fit survey.csv --target income --weights persons --quantile 0.9
  sparsenam fit patients.tsv --target months --event died --max-seconds 60
  sparsenam fit 'trips/*.parquet' --target minutes"""
PATH_EPILOG = """\b
Examples:
  sparsenam path houses.csv --target price
  sparsenam path loans.parquet --target default --json > path.json"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathOptions:
    """A table, what is to be predicted, and what its columns are."""

    table: TableFile
    target: Annotated[str, typer.Option(help="Column to predict.", show_default=False)]
    task: Annotated[str, typer.Option(help="auto, regression, count or classification.")] = "auto"
    seed: Annotated[int, typer.Option(help="Seed of the folds.", min=0)] = 0
    keep: Annotated[str | None, typer.Option(help="Columns never to drop, with commas between.")] = None
    drop: Annotated[str | None, typer.Option(help="Columns to leave out, with commas between.")] = None
    types: Annotated[str | None, typer.Option(help="What columns are, as in zip=category,day=date.")] = None
    exposure: Annotated[str | None, typer.Option(help="Column of time or size over which y was counted.")] = None
    weights: Weights = None
    family: Annotated[str | None, typer.Option(help="gaussian, huber, quantile, gamma, poisson, …")] = None
    quantile: Annotated[float | None, typer.Option(help="Predict this quantile, such as 0.9, instead of the mean.")] = (
        None
    )
    max_bytes: MaxBytes = MAX_BYTES

    def request(self, event: str | None = None) -> TargetRequest:
        """Return what is said about the target; a level alone means the family of quantiles."""
        from sparsenam.cli.problem import TargetRequest

        family = "quantile" if self.quantile is not None and self.family is None else self.family
        return TargetRequest(self.target, self.task, family, event, self.exposure, self.weights, self.quantile)

    def settings(self) -> Plain:
        """Return the settings of an estimator."""
        return {
            "always_keep": as_list(self.keep) or None,
            "feature_types": as_kinds("--types", "kind, with commas between", "zip=category", as_list(self.types))
            or None,
            "random_state": self.seed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions(PathOptions):
    """What to fit, how, and where to write it."""

    target: Annotated[str, typer.Option(help="Column to predict; for survival the time.", show_default=False)]
    task: Annotated[str, typer.Option(help="auto, regression, count, classification or survival.")] = "auto"
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same model.", min=0)] = 0
    event: Event = None
    out: Annotated[Path, typer.Option(help="Folder for model.snam, report.html and metrics.json.")] = Path(
        "sparsenam-model"
    )
    test: Annotated[float, typer.Option(help="Share of rows held out to measure the error; 0 for none.")] = 0.2
    max_seconds: Annotated[float | None, typer.Option(help="Most seconds for the fit.")] = None
    alpha: Annotated[str, typer.Option(help="Weight of the penalty; auto chooses by cross-validation.")] = "auto"
    rule: Annotated[str, typer.Option(help="compact, one_se or best: which point of the path to take.")] = "compact"
    max_features: Annotated[int | None, typer.Option(help="Most columns to keep.")] = None
    fdr: Annotated[float | None, typer.Option(help="Keep discoveries with at most this share of false ones.")] = None
    pairs: Annotated[str | None, typer.Option(help="Most pairs of columns that act together, 0 for none.")] = None
    pair: Annotated[list[str] | None, typer.Option(help="A pair that must be in: one,other; may be repeated.")] = None
    heredity: Annotated[str, typer.Option(help="none, weak or strong: which kept columns a pair needs.")] = "none"
    shape: Annotated[list[str] | None, typer.Option(help="Shape of a column, as in age=increasing; repeatable.")] = None
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler that reads the files.")] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was stopped.")] = False

    def settings(self) -> Plain:
        """Return the settings of an estimator; those that are not named have its defaults."""
        from sparsenam.selection import FDR

        if self.fdr is not None and self.rule != "compact":
            expected, got = "no other rule beside it", f"--rule {self.rule}"
            raise InputError(describe("--fdr", expected, got, "leave one of them out"))
        pairs = as_pairs(self.pairs, self.pair or [])
        return {
            **PathOptions.settings(self),
            "alpha": as_alpha(self.alpha),
            "rule": self.rule if self.fdr is None else FDR(self.fdr),
            "max_features": self.max_features,
            "max_seconds": self.max_seconds,
            "shapes": as_kinds("--shape", "shape", "--shape age=increasing", self.shape or ()) or None,
            "heredity": self.heredity,
            **({} if pairs is None else {"pairs": pairs}),
        }


def fit(options: FitOptions) -> None:
    """Fit a sparse additive model to a table and measure it on rows held out.

    A folder of Parquet files, a pattern such as 'big/*.parquet', or one file of more than 200,000 rows is read block by
    block and never held in memory.

    Ctrl-C leaves the best model so far, marked as preliminary; none of survival, of a table read by the block, and in
    the first moments. The same command with --resume goes on to the model of an unbroken run.
    """
    # heavy modules are loaded here and not at the top: "sparsenam --help" must not wait for PyTorch
    from sparsenam.cli.large import connected
    from sparsenam.cli.run import FitRequest, FitStopped, ModelFolder, run_fit

    request = FitRequest(options.request(options.event), options.settings(), options.test, as_list(options.drop))
    folder = ModelFolder(options.out)
    had_model = folder.model.exists()
    with connected(options.scheduler):
        try:
            problem, content = _posed(options, request)
        except KeyboardInterrupt as stop:
            note(_stopped_message("nothing", folder, had_model=had_model))
            raise typer.Exit(INTERRUPTED) from stop
        fingerprint, request = request.fingerprint(content), request.settled(problem)
        unprinted = _say_task(problem.kind, problem.notes)
        if options.resume:
            finished = folder.finished_fit()
            is_whole = finished is not None and finished.get("cut_short") is None  # else more time may be allowed now
            if finished is not None and is_whole and finished.get("fingerprint") == fingerprint:
                note("This fit is finished already.")
                _say_outcome(finished, folder)
                return
            going_on = f"Going on with the stopped fit in {folder.path}."
            note(going_on if folder.stage.exists() else "Starting from the beginning.")
        try:
            with folder.made():
                metrics = run_fit(problem, request, folder, fingerprint, resume=options.resume)
        except FitStopped as stop:
            note(_stopped_message(stop.left, folder, had_model=had_model))
            raise typer.Exit(INTERRUPTED) from stop
    _say_outcome(metrics, folder)
    if unprinted is not None:
        raise unprinted


def path(options: PathOptions, as_json: AsJson = False) -> None:
    """Walk the regularisation path on all rows: entry order, alphas, sizes and cross-validated losses."""
    from sparsenam.cli.run import FitRequest

    if options.task == "survival":
        remedy = "see the path in the report of sparsenam fit"
        raise InputError(describe("--task", "regression, count or classification", "survival", remedy))
    request = FitRequest(options.request(), options.settings(), drop=as_list(options.drop))
    problem = request.read(options.table, options.max_bytes)
    if not as_json:
        _say_task(problem.kind, problem.notes)
    walker = request.convex_estimator(problem.kind, "auto")
    problem.fit(walker)
    walked = _path_to_dict(walker)
    say_json(walked) if as_json else _show_path(walked)


def as_kinds(option: str, what: str, example: str, texts: Iterable[str]) -> dict[str, str]:
    """Return what is said of each column in texts such as ``zip=category``."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, kind = (part.strip() for part in text.rpartition("="))
        if not name or not kind:
            raise InputError(describe(option, f"column={what}", repr(text), f"write for example {example}"))
        if name in found:
            raise InputError(describe(option, "each column once", f"{name!r} twice", "take one out"))
        found[name] = kind
    return found


def as_pairs(text: str | None, named: Sequence[str]) -> int | str | list[tuple[str, str]] | None:
    """Return how many pairs to look for, ``auto``, or the pairs that are named; None where nothing is said.

    A name with a comma is in quotation marks, as in a CSV file.
    """
    if text is not None and named:
        raise InputError(describe("--pairs", "either a number or named pairs", "both", "leave --pairs or --pair out"))
    if named:
        found: list[tuple[str, str]] = []
        for part in named:
            names = [name.strip() for name in next(csv.reader([part], skipinitialspace=True), list[str]())]
            if len(names) != 2 or not all(names):
                remedy = """write for example --pair size,age, a name with a comma as '"a,b",age'"""
                raise InputError(describe("--pair", "two columns with a comma between", repr(part), remedy))
            found.append((names[0], names[1]))
        return found
    if text is None or text == "auto":
        return text
    if not (text.isascii() and text.isdecimal()):
        raise InputError(describe("--pairs", "auto or a number of at least 0", repr(text), "name pairs with --pair"))
    return int(text)


def as_alpha(text: str) -> float | Literal["auto"]:
    """Return the weight of the penalty, a number or ``auto``."""
    if text == "auto":
        return "auto"
    try:
        alpha = float(text)
    except ValueError:
        alpha = -1.0
    if not 0 <= alpha < float("inf"):
        raise InputError(describe("--alpha", "auto or a number of at least 0", repr(text), "choose another"))
    return alpha


def _posed(options: FitOptions, request: FitRequest) -> tuple[Posed, bytes]:
    """Return the problem of a table in memory or in blocks, and what stands for the content of the table."""
    from sparsenam.cli.large import content_of, pose_large, reads_blocks, source_at
    from sparsenam.cli.problem import split

    table, in_cluster = options.table, options.scheduler is not None
    if in_cluster or reads_blocks(table, request):
        source = source_at(table, in_cluster=in_cluster)
        large = pose_large(source, request.target, request.test, request.seed, table, request.drop)
        return large, content_of(source, large)
    problem = request.read(table, options.max_bytes)
    return split(problem, request.test, request.seed), problem.rows.table.digest


def _say_task(kind: TargetKind, notes: Sequence[str]) -> OSError | None:
    """Say what the table asks for, and what was left out; return why it could not be printed, which stops no fit."""
    for message in notes:
        note(message)
    try:
        say(f"task: {kind.task} ({kind.reason})")
    except OSError as error:
        return error
    return None


MOST_DROPPED_NAMED = 8  # named in one line


def _say_outcome(metrics: Plain, folder: ModelFolder) -> None:
    from sparsenam.text import pair_text

    kept, dropped = metrics["kept"], metrics["dropped"]
    say(f"kept: {', '.join(kept) or 'nothing'} ({len(kept)} of {metrics['columns']} columns)")
    if metrics.get("pairs"):
        say(f"pairs: {', '.join(pair_text(one, other) for one, other in metrics['pairs'])}")
        explained: Plain = metrics["explained"]
        if explained and (added := explained["by_pairs"]) is not None:
            say(f"pairs add {100 * added:.1f} % to what is explained; --pairs 0 fits the purely additive model")
    few = ", ".join(dropped[:MOST_DROPPED_NAMED]) + (" …" if len(dropped) > MOST_DROPPED_NAMED else "")
    say(f"dropped: {len(dropped)} ({few})" if dropped else "dropped: none")
    rows = metrics["rows"]
    say(_error_line(metrics["test"], rows.get("measured", rows["test"])))
    for sentence in metrics.get("notes", ()):
        say(f"note: {sentence}")
    if metrics.get("advice") is not None:
        say(f"advice: {metrics['advice']}")
    say(f"fit: {rows['fit']} rows in {metrics['seconds']:.1f} s")
    say(f"model: {folder.model}")
    say(f"report: {folder.report}")
    say(f"metrics: {folder.metrics}")


def _error_line(test: Plain | None, rows: int) -> str:
    if test is None:
        return "test: no rows held out"
    more = "".join(
        f", {name.replace('_', ' ')} {test[name]:.4g}"
        for name in ("log_loss", "auc", "r2")
        if test.get(name) is not None
    )
    model, baseline = ("infinite" if test[name] is None else plain_number(test[name]) for name in ("model", "baseline"))
    return f"test {test['measure']}: {model} on {rows} rows (baseline, {test['baseline_is']}: {baseline}){more}"


def _stopped_message(left: Left, folder: ModelFolder, *, had_model: bool) -> str:
    if left == "nothing":
        older = f" ({folder.model} is of an earlier fit)" if had_model else ""
        return f"Stopped before there was a model{older}; the same command with --resume starts again."
    if left == "stages":
        return "Stopped while all rows were read; the same command with --resume goes on where it was."
    if left == "early":
        state = f"{folder.model} is a preliminary model of the best columns so far"
        return f"Stopped while columns were chosen: {state}; the same command with --resume starts again."
    state = {
        "older": "is still that of the earlier fit",
        "complete": "is complete, its report is not",
        "preliminary": "is a preliminary model, of the chosen columns but not yet trained",
    }[left]
    return f"Stopped: {folder.model} {state}; the same command with --resume finishes the fit."


def _path_to_dict(walker: AdditiveEstimator) -> Plain:
    curve, walked = walker.cv_curve_, walker.path_
    assert curve is not None and walked is not None  # with alpha="auto" there are both
    taken, best = walker.fit_.taken, curve.choose("best")
    known: list[str] = []
    points: list[Plain] = []
    for index, (point, row) in enumerate(zip(walked, curve.table(), strict=True)):
        kept: list[str] = [walked.names[feature] for feature in sorted(point.features.tolist())]
        points.append(
            {
                "alpha": row["alpha"],
                "features": int(point.features.size),
                "cv_mean": row["mean"],
                "cv_standard_error": row["standard_error"],
                "entered": [name for name in kept if name not in known],
                "best": index == best,
                "taken": index == taken,
            }
        )
        known += [name for name in kept if name not in known]
    return {"schema": 1, "entry_order": walked.entry_order(), "points": points}


def _show_path(walked: Plain) -> None:
    from sparsenam.text import FindingTable

    lines = [
        (
            f"{point['alpha']:.4g}",
            str(point["features"]),
            f"{point['cv_mean']:.4g} ± {point['cv_standard_error']:.2g}",
            " ".join(mark for mark in ("best", "taken") if point[mark]),
            ", ".join(point["entered"]),
        )
        for point in walked["points"]
    ]
    heads = ("alpha", "features", "held-out loss", "", "entered")
    say(str(FindingTable("The path, from the strongest penalty on", heads, tuple(lines))))
    say(f"order of entry: {', '.join(walked['entry_order'])}")
