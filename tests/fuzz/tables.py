"""Random tables of hostile make through fit → predict → effects → bands → explain → report → save → load."""

from __future__ import annotations

import json
import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import sparsenam
from fuzz.table_cases import Case, draw

PLOTTED = 12  # one table in so many is drawn, too: a figure takes longer than a fit
SLOW = 10.0  # CPU seconds of one table that are worth a line
PLACES = "d|x|y|x1|x2|y1|y2|cx|cy|r|width|height|points|transform"
NO_COORDINATE = re.compile(rf'\s({PLACES})="[^"]*\b(nan|inf|NaN|Infinity)\b')
INTERNAL = re.compile(r"(FittedCurve|PairShape|AdditiveModel|PreparedSample|Scaling|Bands|Residuals|SummaryData)\b")


class RefusedError(Exception):
    """A refusal in one sentence: nothing further is asked of this table."""


def attack(seed: int, count: int, say: Callable[[str], None]) -> list[str]:
    """Return one sentence for each thing that did not hold in ``count`` tables drawn from a seed."""
    findings, refused = list[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            case, started = draw(seed, number), time.process_time()
            found, fitted = examine(case, Path(folder), plots=number % PLOTTED == 0)
            seconds = time.process_time() - started
            refused += not fitted
            findings += [f"table {seed}/{number}: {problem} [{case.recipe}]" for problem in found]
            for problem in found:
                say(f"table {seed}/{number}: {problem} [{case.recipe}]")
            if seconds > SLOW:
                say(f"table {seed}/{number} took {seconds:.1f} CPU seconds [{case.recipe}]")
            if (number + 1) % 250 == 0:
                say(f"{number + 1} tables, {refused} refused, {len(findings)} findings")
    return findings


def examine(case: Case, folder: Path, *, plots: bool = False) -> tuple[list[str], bool]:
    """Return what did not hold for one table, and whether it was fitted."""
    problems: list[str] = []
    model = case.model()
    try:
        with watched("fit", problems, refuses=True):
            model.fit(case.X, case.y, **case.arguments)
    except RefusedError:
        return list(dict.fromkeys(problems)), False
    for check in (_numbers, _uncertainty, _pages, _files, _fresh_rows, *((_plots,) if plots else ())):
        with suppress(RefusedError):
            check(model, case, folder, problems)
    return list(dict.fromkeys(problems)), True


@contextmanager
def watched(step: str, problems: list[str], *, refuses: bool):
    """Note what is raised within, unless it is a refusal where these are allowed, and warnings of arithmetic."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            yield
        except Exception as error:
            if fault := _fault(error, refuses=refuses):
                problems.append(f"{step}: {fault}")
            raise RefusedError from error
        finally:
            for warning in heard:
                if not issubclass(warning.category, UserWarning):
                    place = f"{Path(warning.filename).name}:{warning.lineno}"
                    problems.append(f"{step}: {warning.category.__name__} {str(warning.message)[:80]!r} at {place}")


def _fault(error: Exception, *, refuses: bool) -> str | None:
    """Return what is wrong with an error as an answer to a user; None where it is a proper refusal."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    ours = [frame for frame in frames if "/sparsenam/" in frame.filename]
    place = f"{'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else last.filename
    text = f"{type(error).__name__} {str(error)[:160]!r} from {place}"
    if not refuses:
        return f"raised {text}"
    if not isinstance(error, ValueError | TypeError | sparsenam.errors.DivergenceError):
        return f"raised {text}"
    if not ("/sparsenam/" in last.filename or "/sklearn/" in last.filename):
        return f"raised {text}, from the inside of {'/'.join(Path(last.filename).parts[-2:])}"
    if not str(error).strip() or "\n" in str(error).strip():
        return f"no single sentence: {text}"
    if INTERNAL.search(str(error)):
        return f"an internal name: {text}"
    return None


def _numbers(model: Any, case: Case, folder: Path, problems: list[str]) -> None:
    """Check that predictions are finite and that intercept, effects and pairs add up to them."""
    with watched("predict", problems, refuses=False):
        answers = _answers(model, case.X)
    with watched("effects", problems, refuses=False):
        effects, pairs = model.effects(case.X), model.interaction_effects(case.X)
        missing = model.missing_effects(case.X)
    for name, values in (*answers.items(), ("effects", effects), ("pairs", pairs), ("missing", missing)):
        if not _finite(values):
            problems.append(f"{name} are not finite")
    if not _finite(effects) or not _finite(pairs):
        return
    with watched("sums", problems, refuses=False):
        family = getattr(model.model_, "family", None)
        total = np.asarray(model.intercept_) + effects.sum(axis=1) + pairs.sum(axis=1)
        size = np.abs(np.asarray(model.intercept_)) + np.abs(effects).sum(axis=1) + np.abs(pairs).sum(axis=1)
        if hasattr(model, "decision_function"):
            scores = model.decision_function(case.X)
        elif hasattr(model, "predict_survival_function"):
            scores = model.predict(case.X)
        else:
            scores, total = model.predict(case.X), family.mean(total)
            slope = np.abs(scores) if family.link == "log" else 1.0
            size = np.maximum(size, 1.0) * slope
        close = np.abs(np.asarray(scores) - total.reshape(np.shape(scores))) <= 1e-9 * (
            np.maximum(size, 1e-300).reshape(np.shape(scores)) if np.ndim(size) else size
        )
        if not np.all(close):
            problems.append("intercept and effects do not add up to the score")


def _answers(model: Any, X: Any) -> dict[str, Any]:
    """Return what a fitted model says of rows, by method."""
    answers = {"predictions": model.predict(X)}
    if hasattr(model, "predict_proba"):
        answers["probabilities"] = model.predict_proba(X)
    if hasattr(model, "predict_survival_function"):
        answers["survival"] = model.predict_survival_function(X, return_array=True)
    return answers


def _finite(values: Any) -> bool:
    found = np.asarray(values)
    return found.dtype.kind not in "fc" or bool(np.isfinite(found).all())


def _uncertainty(model: Any, case: Case, folder: Path, problems: list[str]) -> None:
    """Check bands, intervals and sets where they are given at all."""
    for ask in ("effect_bands", "predict_interval", "predict_set"):
        if not hasattr(model, ask):
            continue
        with suppress(RefusedError), watched(ask, problems, refuses=True):
            found = getattr(model, ask)(case.X)
            ends = [np.asarray(getattr(found, name)) for name in ("lower", "upper") if ask != "predict_set"]
            if ask == "effect_bands":  # columns that the answer itself names have no limits
                limited = [name not in found.without for name in model.encoder_.names]
                ends = [values[:, limited] for values in ends]
            if any(np.isnan(values.astype(float)).any() for values in ends):
                problems.append(f"{ask}: NaN")


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} in JSON")


def _pages(model: Any, case: Case, folder: Path, problems: list[str]) -> None:
    """Check that explanations are plain finite data and that the page is written."""
    with watched("explain", problems, refuses=False):
        explanation = model.explain()
        str(explanation)
        json.loads(explanation.to_json(), parse_constant=_no_constant)
    with watched("explain rows", problems, refuses=False):
        model.explain(case.X)
        local = model.explain_local(case.X)
        json.loads(local.to_json(), parse_constant=_no_constant)
    with watched("report", problems, refuses=False):
        page = explanation.report(folder / "report.html", local if len(local) <= 20 else None)
        text = Path(page).read_text(encoding="utf-8")
        if NO_COORDINATE.search(re.sub(r"<script.*?</script>", "", text, flags=re.S)):
            problems.append("report: a coordinate that is no number")


def _files(model: Any, case: Case, folder: Path, problems: list[str]) -> None:
    """Check that the file is read back into the same bits."""
    path = folder / "model.snam"
    with watched("save and load", problems, refuses=False):
        model.save(path)
        again = sparsenam.load(path)
        before, after = _answers(model, case.X), _answers(again, case.X)
        before["effects"], after["effects"] = model.effects(case.X), again.effects(case.X)
        for name, values in before.items():
            one, other = np.asarray(values), np.asarray(after[name])
            same = one.tobytes() == other.tobytes() if one.dtype != object else bool(np.all(one == other))
            if not same or one.shape != other.shape:
                problems.append(f"load(save): other {name}")
        explained = [found.explain().to_dict() for found in (model, again)]
        for found in explained:
            found["card"].pop("settings")  # a splitter is not written into the file
        if explained[0] != explained[1]:
            problems.append("load(save): another explanation")


def _fresh_rows(model: Any, case: Case, folder: Path, problems: list[str]) -> None:
    """Check rows that the fit has not seen: finite answers or a refusal."""
    for rows in case.fresh:
        with watched("new rows", problems, refuses=True):
            for name, values in (*_answers(model, rows).items(), ("effects", model.effects(rows))):
                if not _finite(values):
                    problems.append(f"new rows: {name} are not finite")


def _plots(model: Any, case: Case, folder: Path, problems: list[str]) -> None:
    """Check that every picture can be drawn."""
    import matplotlib

    matplotlib.use("Agg")
    from sparsenam.explain import plots

    with watched("plots", problems, refuses=False):
        explanation = model.explain()
        for name, draws in (("shapes", plots.plot_shapes), ("importance", plots.plot_importance)):
            if explanation.features:
                figure = draws(explanation)
                getattr(figure, "figure", figure).savefig(folder / f"{name}.png", dpi=40)
