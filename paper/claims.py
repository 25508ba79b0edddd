"""What the paper claims in numbers, beside its tables' numbers and ours, each with a verdict that the numbers decide.

Everything is computed from `published.toml` and the committed reports: a record that changes may change a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from paper.experiments import summaries_of
from paper.recipe import Settings
from paper.records import Record, read_report, shown_records
from paper.tables import OPTIMIZERS, Table, published, shown
from sparsenam.errors import InputError, describe

TITLE = "The paper's claims in numbers"
HEADINGS = ("claim", "where", "the paper's tables", "measured here", "verdict")
HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
NOTES = (
    "Measured here: means over the splits of the reports in paper/results. snam-paper is the paper's text run as "
    "printed, snam-paper-scaled the same on standardised columns, snam-default this package with nothing set.",
    "A verdict is about the claim as worded, on our rows; the paper's numbers are of one split each.",
)
COMMON_SHARE = 0.1  # methods whose losses differ by less perform alike
FIVE = ("priors_count", "two_year_recid", "age_Less than 25", "age_Greater than 45", "race_African-American")
FIGURE = "california-figure-2"  # python -m paper california --recipe paper/recipes/figure-2.toml
NEAR = 0.05  # an estimate of a share that is called the same
FAR_LEVEL = 0.5  # of the errors |f - h| that are counted; the noise has a standard deviation of 1


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of the table, all text."""

    text: str
    where: str
    printed: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class Evidence:
    """The paper's rows and our records, by table, method and measure."""

    folder: Path

    @cached_property
    def reports(self) -> Mapping[str, dict[str, Any]]:
        """Reports by name."""
        found = {path.stem: read_report(path) for path in sorted(self.folder.glob("*.json"))}
        wanted = ("synthetic-regression", "synthetic-classification", "california", "compas", "superconductivity")
        for name in (*wanted, "theory"):
            if name not in found:
                remedy = f"run python -m paper {name} first"
                raise InputError(describe("claims", f"a report of {name} in {self.folder}", "none", remedy))
        return found

    def records(self, name: str, method: str) -> list[Record]:
        """Return the records of a method that are shown and done."""
        found = [
            record
            for record in shown_records(self.reports[name])
            if record["method"] == method and record["status"] == "done" and record["section"] != OPTIMIZERS
        ]
        if not found:
            expected = f"a record of {method} in the report {name}"
            raise InputError(describe("claims", expected, "none", f"run python -m paper {name} first"))
        return found

    def mean(self, name: str, method: str, measure: str) -> float:
        """Return the mean of a measure over the splits."""
        return float(np.mean([record["measures"][measure] for record in self.records(name, method)]))

    def printed(self, name: str, method: str, measure: str) -> float:
        """Return a number of the paper's tables."""
        (row,) = (row for row in published(name)["rows"] if row["method"] == method)
        return float(row[measure])

    @cached_property
    def theory(self) -> Mapping[str, Settings]:
        """Summaries of the experiments."""
        return summaries_of(self.reports["theory"])


def claims_table(folder: Path) -> Table:
    """Return the table of all claims from the reports in a folder."""
    evidence = Evidence(folder)
    rows = [make(evidence) for make in CLAIMS]
    cells = tuple((row.text, row.where, row.printed, row.measured, row.verdict) for row in rows)
    return Table(TITLE, HEADINGS, cells, NOTES)


def _verdict(*parts: bool) -> str:
    """Return that a claim holds, holds in part or does not, by whether all, some or none of its parts are true."""
    return HOLDS if all(parts) else PARTLY if any(parts) else FAILS


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def zero_loss(evidence: Evidence) -> Claim:
    """Claim of the abstract about descents."""
    flows = evidence.theory["flows"]
    proximal, plain = flows["proximal"], flows["shrinking_subgradient"]
    excess = [float(flow["objective"] / flow["optimum"]) - 1 for flow in (proximal, plain)]
    reached = max(excess) < 1e-3
    measured = (
        f"convex problem, 1000 rows: objective {shown(proximal['objective'])} by proximal and "
        f"{shown(plain['objective'])} by shrinking subgradient steps; the minimum is {shown(proximal['optimum'])}, "
        "and no loss is 0 where λ > 0"
    )
    text = "subgradient and proximal descents converge to zero training loss"
    verdict = f"{FAILS}; they {'reach' if reached else 'do not reach'} the minimum of the penalised loss"
    return Claim(text, "abstract", "none", measured, verdict if proximal["optimum"] > 0 else HOLDS)


def vanishing_error(evidence: Evidence) -> Claim:
    """Claim of the abstract about the estimation error."""
    kinds: Settings = evidence.theory["estimation"]["by_estimator"]
    well, fixed = (
        [sum(repeats) / len(repeats) for repeats in (kinds[name]["error"][0], kinds[name]["error"][-1])]
        for name in ("well_specified", "fixed_features")
    )
    floor = kinds["fixed_features"]["approximation"][-1]
    sizes = kinds["well_specified"]["n"]
    measured = (
        f"n = {sizes[0]} to {sizes[-1]}: {shown(well[0])} to {shown(well[1])} where the features can represent f; "
        f"{shown(fixed[0])} to {shown(fixed[1])} where they cannot, of which {shown(floor)} stays at any n"
    )
    verdict = _verdict(well[1] < 0.1 * well[0], fixed[1] < 2 * NEAR * fixed[0])
    return Claim("the estimation error vanishes as n grows", "abstract", "none", measured, verdict)


def support_recovery(evidence: Evidence) -> Claim:
    """Claim of the abstract about the support."""
    theory = [row for row in evidence.theory["recovery"]["theory"] if row["design"] == "orthonormal"]
    last = theory[-1]
    measured = (
        f"n = {last['n']}: some λ recovers the four features in {_percent(last['some_multiplier_exact'])} of the "
        f"repeats; the printed λ of Theorem 4.7 is {shown(last['as_printed'])} of λ_max where at most "
        f"{shown(last['dense'])} keeps all four"
    )
    parts = last["some_multiplier_exact"] == 1, last["as_printed"] < last["dense"]
    return Claim("exact support recovery with appropriate λ", "abstract", "none", measured, _verdict(*parts))


def generalisation(evidence: Evidence) -> Claim:
    """Claim of the abstract about fresh rows."""
    summary = evidence.theory["consistency"]
    level = summary["epsilons"].index(FAR_LEVEL)
    kinds: Settings = summary["by_estimator"]
    ends = {name: [kinds[name]["share"][place][level] for place in (0, -1)] for name in kinds}
    sizes = next(iter(kinds.values()))["n"]
    parts = [f"{name.replace('_', ' ')} {shown(first)} to {shown(last)}" for name, (first, last) in ends.items()]
    measured = f"share of fresh rows with |f - h| ≥ {FAR_LEVEL}, n = {sizes[0]} to {sizes[-1]}: {'; '.join(parts)}"
    verdict = _verdict(*(last < 0.1 * first for first, last in ends.values()))
    return Claim("SNAM generalises: h tends to f in measure", "abstract, Theorem 5.1", "none", measured, verdict)


def identifiability(evidence: Evidence) -> Claim:
    """Claim of the abstract about effects."""
    kinds: Settings = evidence.theory["identification"]["by_estimator"]
    slopes = {"default": kinds["network"], "random features": kinds["random_features"]}
    lines = [
        f"{name} {points['slope']:.2f} ({points['interval'][0]:.2f} to {points['interval'][1]:.2f})"
        for name, points in slopes.items()
    ]
    measured = f"slope of log identification error on log n, independent columns: {'; '.join(lines)}"
    verdict = _verdict(*(points["interval"][1] < 0 for points in slopes.values()))
    return Claim("each effect is recovered", "abstract, Theorem 5.2", "none", measured, verdict)


def faster_than_spam(evidence: Evidence) -> Claim:
    """Claim of the introduction about time."""
    name = "synthetic-regression"
    printed = evidence.printed(name, "SPAM", "seconds") / evidence.printed(name, "SNAM", "seconds")
    spam, ours, default = (evidence.mean(name, method, "seconds") for method in ("spam", "snam-paper", "snam-default"))
    measured = f"SPAM {shown(spam)} s, snam-paper {shown(ours)} s, snam-default {shown(default)} s"
    verdict = _verdict(spam > 3 * ours)
    if verdict == FAILS and ours > spam:
        verdict = f"{FAILS}: SPAM is {ours / spam:.1f} × faster than the paper's training"
    where = "introduction, sections 2 and 6.1"
    return Claim("SNAM is 3 times faster than SPAM", where, f"{printed:.2f} ×", measured, verdict)


def half_of_the_parameters(evidence: Evidence) -> Claim:
    """Claims of the introduction and section 6.3 about NAM's parameters on COMPAS."""
    printed, measured, _ = _share_of_nam(evidence, "compas", ("snam-paper", "snam-notebook", "snam-paper-tuned"))
    share = evidence.printed("compas", "SNAM", "parameters") / evidence.printed("compas", "NAM", "parameters")
    verdict = HOLDS if abs(share - 0.54) < NEAR else f"{FAILS}: by its table it is {_percent(share)}"
    text = "SNAM has 54 % of NAM's parameters on COMPAS (saves roughly half)"
    return Claim(text, "introduction, section 6.3", printed, measured, verdict)


def saved_on_california(evidence: Evidence) -> Claim:
    """Claim of section 6.2 about parameters."""
    printed, measured, shares = _share_of_nam(evidence, "california", ("snam-paper", "snam-paper-scaled"))
    verdict = _verdict(*(abs(1 - share - 0.125) < NEAR for share in shares))
    return Claim("SNAM saves 12.5 % of NAM's parameters", "section 6.2", printed, measured, verdict)


def saved_on_superconductivity(evidence: Evidence) -> Claim:
    """Claim of section 6.4 about parameters."""
    printed, measured, shares = _share_of_nam(evidence, "superconductivity", ("snam-paper", "snam-paper-scaled"))
    verdict = _verdict(*(abs(1 - share - 0.45) < NEAR for share in shares))
    return Claim("SNAM saves 45 % of NAM's parameters", "section 6.4", printed, measured, verdict)


def _share_of_nam(evidence: Evidence, name: str, methods: tuple[str, ...]) -> tuple[str, str, list[float]]:
    """Return SNAM's share of NAM's parameters: as printed, as measured, and the measured numbers."""
    few, many = (evidence.printed(name, method, "parameters") for method in ("SNAM", "NAM"))
    nam = evidence.mean(name, "nam", "parameters")
    shares = [evidence.mean(name, method, "parameters") / nam for method in methods]
    parts = [f"{method} {_percent(share)}" for method, share in zip(methods, shares, strict=True)]
    printed = f"{few:.0f} of {many:.0f} is {_percent(few / many)}, saves {_percent(1 - few / many)}"
    return printed, f"share of NAM's: {', '.join(parts)}", shares


def spam_memory(evidence: Evidence) -> Claim:
    """Claim of section 2 about SPAM's memory."""
    mse, seconds = (evidence.mean("california", "spam", measure) for measure in ("mse", "seconds"))
    measured = f"California: SPAM ends in {shown(seconds)} s with MSE {shown(mse)}; the others were not tried"
    text = "SPAM runs out of memory on all real datasets"
    return Claim(text, "section 2", "no row of SPAM", measured, FAILS)


def only_exact(evidence: Evidence) -> Claim:
    """Claim of section 6.1 about who recovers the support."""
    name, measures = "synthetic-regression", ("precision", "recall")
    lasso = [evidence.printed(name, "LASSO", measure) for measure in measures]
    found = {
        method: [evidence.mean(name, method, measure) for measure in measures]
        for method in ("lasso", "spam", "snam-paper", "snam-default")
    }
    measured = ", ".join(f"{method} {shown(a)} and {shown(b)}" for method, (a, b) in found.items())
    exact = found["snam-paper"] == [1, 1]
    alone = [1, 1] not in (found["lasso"], found["spam"], lasso)
    printed = f"LASSO's precision {lasso[0]:.2f} and recall {lasso[1]:.2f} too"
    return Claim("only SNAM recovers the support", "section 6.1", printed, measured, _verdict(exact, alone))


def better_than_spam(evidence: Evidence) -> Claim:
    """Claim of section 6.1 about losses."""
    name = "synthetic-regression"
    printed = [evidence.printed(name, method, "mse") for method in ("SNAM", "SPAM", "LASSO")]
    ours = [evidence.mean(name, method, "mse") for method in ("snam-paper", "spam", "lasso")]
    words = "SNAM {}, SPAM {}, LASSO {}"
    return Claim(
        "SNAM has the lowest loss on the synthetic regression",
        "section 6.1",
        words.format(*map(shown, printed)),
        words.format(*map(shown, ours)),
        _verdict(ours[0] < ours[1], ours[0] < ours[2]),
    )


def higher_accuracy(evidence: Evidence) -> Claim:
    """Claim of section 6.1 about classes."""
    name = "synthetic-classification"
    best = max(evidence.printed(name, method, "accuracy") for method in ("ℓ1 SVM", "LASSO"))
    gain = evidence.printed(name, "SNAM", "accuracy") - best
    precise = evidence.printed(name, "SNAM", "precision") - evidence.printed(name, "LASSO", "precision")
    linear = ("l1-svm", "l1-logistic")
    ours = evidence.mean(name, "snam-paper", "accuracy") - max(evidence.mean(name, m, "accuracy") for m in linear)
    sharper = evidence.mean(name, "snam-paper", "precision") - max(evidence.mean(name, m, "precision") for m in linear)
    return Claim(
        "roughly 20 % higher accuracy and 33 % higher precision than linear methods",
        "section 6.1",
        f"{gain:.1f} and {100 * precise:.0f} points",
        f"{100 * ours:.1f} and {100 * sharper:.0f} points",
        _verdict(abs(ours - 0.2) < NEAR, sharper > 0.33 - NEAR),
    )


def best_on_california(evidence: Evidence) -> Claim:
    """Claim of section 6.2 about linear methods, which its 14 seconds rest on."""
    printed = [evidence.printed("california", method, "mse") for method in ("SNAM", "LASSO", "ℓ1 SVM")]
    rows = ("snam-paper", "snam-paper-scaled", "lasso", "l1-svm")
    raw, scaled, lasso, svm = (evidence.mean("california", method, "mse") for method in rows)
    measured = f"snam-paper {shown(raw)}, scaled {shown(scaled)}, LASSO {shown(lasso)}, ℓ1 SVM {shown(svm)}"
    verdict = _verdict(scaled < lasso, scaled < svm, raw < lasso)
    return Claim(
        "SNAM outperforms LASSO and SVM, after 14 seconds",
        "section 6.2",
        "MSE {}, {}, {}".format(*map(shown, printed)),
        f"MSE {measured}; seconds of a P100 cannot be compared",
        verdict,
    )


def california_features(evidence: Evidence) -> Claim:
    """Claim of section 6.2 about kept columns."""
    three = {"MedInc", "Latitude", "Longitude"}
    counts: list[str] = []
    same: list[bool] = []
    for method in ("snam-paper", "snam-paper-scaled"):
        kept = [set(record["support"]) for record in evidence.records("california", method)]
        same += [support == three for support in kept]
        counts.append(f"{method} keeps them in {sum(three <= support for support in kept)} of {len(kept)} splits")
    sizes = shown(evidence.mean("california", "snam-paper-scaled", "features"))
    printed = f"{evidence.printed('california', 'SNAM', 'features'):.0f} features"
    text = "SNAM selects median income, latitude and longitude"
    measured = f"{', '.join(counts)}, always with others ({sizes} columns)" if not all(same) else ", ".join(counts)
    together = [three <= set(r["support"]) for r in evidence.records("california", "snam-paper-scaled")]
    return Claim(text, "section 6.2", printed, measured, _verdict(all(together), all(same)))


def compas_auc(evidence: Evidence) -> Claim:
    """Claim of section 6.3 about the area under the curve of labels."""
    methods = ("SNAM", "ℓ1 SVM", "LASSO", "NAM")
    printed = [evidence.printed("compas", method, "auc_of_labels") for method in methods]
    rows = ("snam-paper", "l1-svm", "l1-logistic", "nam")
    ours = [evidence.mean("compas", method, "auc_of_labels") for method in rows]
    words = "SNAM {}, ℓ1 SVM {}, LASSO {}, NAM {}"
    return Claim(
        "SNAM has the highest AUC on COMPAS",
        "section 6.3",
        words.format(*map(shown, printed)),
        words.format(*map(shown, ours)),
        _verdict(ours[0] >= max(ours)),
    )


def compas_features(evidence: Evidence) -> Claim:
    """Claim of section 6.3 about kept columns."""
    parts: list[str] = []
    exact: list[bool] = []
    for method in ("snam-paper", "snam-notebook", "snam-default"):
        kept = [set(record["support"]) for record in evidence.records("compas", method)]
        exact.append(all(set(FIVE) <= support for support in kept))
        count, same = sum(set(FIVE) <= support for support in kept), sum(set(FIVE) == support for support in kept)
        parts.append(f"{method}: all five in {count} of {len(kept)} splits, no others in {same}")
    text = "the five features are prior counts, two ages, two-year recidivism and African American"
    return Claim(text, "section 6.3", "5 features", "; ".join(parts), _verdict(*exact))


def superconductivity_loss(evidence: Evidence) -> Claim:
    """Claim of section 6.4, and Table 5's row of SNAM."""
    name = "superconductivity"
    printed = [evidence.printed(name, method, "mse") for method in ("SNAM", "NAM", "LASSO")]
    columns = shown(evidence.printed(name, "SNAM", "features"))
    nam = evidence.mean(name, "nam", "mse")
    rows = [
        (method, evidence.mean(name, method, "mse"), evidence.mean(name, method, "features"))
        for method in ("snam-paper", "snam-paper-scaled", "snam-notebook")
    ]
    parts = [f"{method} {shown(mse)} with {shown(kept)} columns" for method, mse, kept in rows]
    alike = [abs(mse / nam - 1) < COMMON_SHARE for _, mse, _ in rows[:2]]
    return Claim(
        f"SNAM with {columns} columns performs like NAM",
        "section 6.4, Table 5",
        "MSE {}, NAM {}, LASSO {}".format(*map(shown, printed)),
        f"MSE {', '.join(parts)}; NAM {shown(nam)}",
        _verdict(*alike) if any(alike) else f"{FAILS}: the row was not reproduced",
    )


def solvers(evidence: Evidence) -> Claim:
    """Claim of section 3.4's figure; a report of its 300 epochs is taken before the one of 100."""
    report = evidence.reports.get(FIGURE, evidence.reports["california"])
    ends = {
        str(record["method"]): record["end"]
        for record in shown_records(report)
        if record["section"] == OPTIMIZERS and record["status"] == "done"
    }
    epochs = max((end["epoch"] for end in ends.values()), default=0)
    lowest = min(end["loss"] + end["penalty"] for end in ends.values())
    parts = [f"{name} {shown(end['loss'])} + {shown(end['penalty'])}" for name, end in ends.items()]
    near = [end["loss"] + end["penalty"] < (1 + COMMON_SHARE) * lowest for end in ends.values()]
    measured = f"loss + penalty after {epochs} of 300 epochs at the printed rate: {', '.join(parts)}"
    text = "the loss converges under every optimizer"
    return Claim(text, "section 3.4, Figure 2", "curves only", measured, _verdict(*near))


CLAIMS: tuple[Callable[[Evidence], Claim], ...] = (
    zero_loss,
    vanishing_error,
    support_recovery,
    generalisation,
    identifiability,
    faster_than_spam,
    half_of_the_parameters,
    spam_memory,
    solvers,
    only_exact,
    better_than_spam,
    higher_accuracy,
    best_on_california,
    california_features,
    saved_on_california,
    compas_auc,
    compas_features,
    superconductivity_loss,
    saved_on_superconductivity,
)
