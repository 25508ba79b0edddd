"""Writes docs/benchmarks.md, its picture and the table of README from benchmarks/results/real.json.

python benchmarks/real_page.py [--print]
"""

import argparse
import json
import statistics
from pathlib import Path

from guarantees import table
from real.methods import METHODS
from real.summary import compare, errors_of, losses_of, peers_of, worse_than_empty, worst_tables
from real.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
JSON = ROOT / "benchmarks" / "results" / "real.json"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "real_tables.svg"
MARKS = ("<!-- real tables -->", "<!-- /real tables -->")

OURS = ("ours", "ours_mains", "ours_best", "ours_all")
KINDS = {
    "number": ("numbers", "mean squared error"),
    "binary": ("two classes", "log loss"),
    "classes": ("several classes", "log loss"),
    "count": ("counts", "Poisson deviance"),
    "amount": ("amounts", "Gamma deviance"),
    "survival": ("survival times", "integrated Brier score"),
}
WORST = 10

INTRODUCTION = """# Benchmarks

sparsenam with nothing set, with `pairs=0`, `rule="best"` and `alpha=0`, and its peers, on {tables} real tables from
published packages: {rows_from:,} to {rows_to:,} rows, {columns_from:,} to {columns_to:,} columns, with text, categories
of up to hundreds of levels, missing cells, dates and heavy tails. `make bench-real` runs it from a fresh clone, resumes
where it was stopped, and writes this page. The recipes of the tables are in `benchmarks/real/`, the settings of every
method in `benchmarks/real/methods.py`, all figures in `benchmarks/results/real.json`.

Time and memory on large tables, the convex path and the training step are on [another page](benchmarks_speed.md); what
each part of the default fit contributes is in [the ablation](ablation.md).
"""

MEASURES = """## How it was measured

- **Splits.** {splits} random splits of every table into 75 % training and 25 % test rows, stratified by class or event.
  Every method gets the same rows, and one core.
- **Loss** is measured on the test rows, as a share of the loss of the model without any feature: {losses}. *Ours over
  theirs* is the ratio of our loss to the peer's; below 1, ours is lower. Ratios are averaged over tables as geometric
  means, ± one standard error over tables.
- **Better, tied, worse** counts tables. A table counts as better or worse if the paired difference on the same test
  rows is larger than two standard errors. The standard error is the larger of two: that of the test rows given the
  fits, and that between splits.
- **CPU** is the CPU time of the fit, with everything that is chosen and converted, without imports; *ours over theirs*
  is the median over tables. CPU time is compared because the wall clock depends on what else a machine does.
- **Peers** use their defaults and the way of choosing that their authors offer: EBM (interpret) with and without its
  default pairs; LightGBM with a learning rate of 0.05, the number of trees chosen by early stopping on a
  fifth of the training rows, then refitted to all of them; ℓ1 linear,
  logistic, Poisson and Gamma regression on dummy columns with the strength chosen by cross-validation; for survival
  times the ℓ1 Cox model and the gradient-boosted Cox model of scikit-survival. A fit that takes more than
  {seconds:.0f} s of CPU is stopped, and the method is not tried on the other splits of that table.
"""

EVERY_TABLE = """## Every table

Loss as a share of the empty model's, the mean over splits; the lowest in bold. "(of 1)" marks a mean over fewer splits,
which is not comparable with the others of its row.
"""

README_TEXT = """{tables} real tables from published packages, {rows_from:,} to {rows_to:,} rows, \
{splits} random splits, one core:

{rows}
*Loss* is the geometric mean of our test loss over theirs; below 1, ours is lower. *Better, tied, worse* counts tables
by two standard errors of the paired difference. *CPU* is the median of our CPU time over theirs. The
[benchmarks](docs/benchmarks.md) show every table, and where we lose. A fit that takes more than {seconds:.0f} s of CPU
is stopped, so that EBM and the ℓ1 model have fewer tables.

{missing}"""


def label(name):
    return METHODS[name].label


def loss_cell(comparison):
    if comparison is None:
        return "–"
    mean, factor = comparison.loss
    return f"{mean:.3f} ± {mean * (factor - 1):.3f}"


def verdict_cell(comparison):
    return "–" if comparison is None else ", ".join(map(str, comparison.verdicts))


def cpu_cell(comparison):
    return "–" if comparison is None else f"{comparison.median_cpu:.2g}"


def against_peers(report):
    """Return the first table: each of our fits against each peer."""
    lines = []
    for peer in peers_of(report):
        for ours in OURS:
            found = compare(report, ours, peer)
            if found is not None:
                cells = (loss_cell(found), verdict_cell(found), cpu_cell(found), str(len(found.ratios)))
                lines.append([label(peer) if ours == OURS[0] else "", label(ours), *cells])
    heads = ("peer", "ours", "loss, ours over theirs", "better, tied, worse", "CPU, ours over theirs", "tables")
    return table(heads, lines)


def among_ours(report):
    """Return what our other settings do to the default."""
    lines = []
    for name in OURS[1:]:
        found = compare(report, name, OURS[0])
        if found is not None:
            lines.append([label(name), loss_cell(found), verdict_cell(found), cpu_cell(found)])
    return table(("", "loss, over the default's", "better, tied, worse", "CPU, over the default's"), lines)


def by_kind(report):
    """Return the losses of the default and of the fit without pairs over each peer's, by kind of target."""
    peers = peers_of(report)
    lines = []
    for kind, (words, _) in KINDS.items():
        count = sum(entry["kind"] == kind for entry in report["tables"].values())
        for ours in OURS[:2]:
            cells = [compare(report, ours, peer, kind) for peer in peers]
            figures = ["" if found is None else f"{found.loss[0]:.3f}" for found in cells]
            lines.append([f"{words} ({count})" if ours == OURS[0] else "", label(ours), *figures])
    return table(("target (tables)", "ours", *map(label, peers)), lines)


def worst(report):
    """Return the tables on which a peer is furthest ahead of the default."""
    lines = [
        [name, KINDS[report["tables"][name]["kind"]][0], f"{mine:.3f}", f"{theirs:.3f}", label(peer), f"{errors:.1f}"]
        for name, mine, peer, theirs, errors in worst_tables(report, OURS[0], peers_of(report), WORST)
    ]
    return table(("table", "target", "our loss", "best peer's loss", "best peer", "standard errors"), lines)


def below_empty(report):
    """Return a sentence on the tables where the default is worse than no model, nothing where there is none."""
    found = worse_than_empty(report, OURS[0])
    names = ", ".join(f"{name} ({loss:.2f})" for name, loss in sorted(found.items(), key=lambda item: -item[1]))
    return f"On these tables the default is worse than the model without features: {names}.\n" if found else ""


def every_table(report):
    """Return the loss of all methods on all tables, the lowest in bold; "of 1" marks a mean over fewer splits."""
    methods = [name for name in METHODS if any(name in entry["methods"] for entry in report["tables"].values())]
    lines = []
    for name, entry in report["tables"].items():
        losses = {method: losses_of(entry, method) for method in methods}
        lowest = min(statistics.fmean(held) for held in losses.values() if len(held) == report["splits"])
        cells = [table_cell(held, lowest, report["splits"]) for held in losses.values()]
        lines.append([name, KINDS[entry["kind"]][0], f"{entry['rows']:,} × {entry['columns']:,}", *cells])
    return table(("table", "target", "size", *map(label, methods)), lines)


def table_cell(losses, lowest, splits):
    if not losses:
        return ""
    mean = statistics.fmean(losses)
    if len(losses) < splits:
        return f"{mean:.3f} (of {len(losses)})"
    return f"**{mean:.3f}**" if mean <= 1.0005 * lowest else f"{mean:.3f}"


def about_tables(report):
    lines = [[name, f"`{entry['source']}`", TABLES[name].about] for name, entry in report["tables"].items()]
    return table(("table", "source", "what it is"), lines)


def errors(report):
    found = errors_of(report)
    if not found:
        return "Every fit of every method ended with a result.\n"
    lines = [[name, label(method), split, reason.replace("|", "/")] for name, method, split, reason in found]
    return table(("table", "method", "split", "reason"), lines)


def not_run(report):
    """Return a sentence on the splits that have not been run, nothing where all have; a stopped method is an error."""
    counts = {}
    for entry in report["tables"].values():
        for name, method in METHODS.items():
            splits = entry["methods"].get(name, {"splits": {}})["splits"]
            stopped = any("error" in record for record in splits.values())
            if entry["kind"] in method.kinds and not stopped and len(splits) < report["splits"]:
                counts[name] = counts.get(name, 0) + report["splits"] - len(splits)
    total = {name: sum(entry["kind"] in METHODS[name].kinds for entry in report["tables"].values()) for name in counts}
    missing = [f"{label(name)} on {count} of {total[name] * report['splits']} splits" for name, count in counts.items()]
    return f"Not run yet: {', '.join(missing)}. Ratios use the splits that both methods have.\n" if missing else ""


def sizes(report):
    """Return the figures of the introduction."""
    rows = [entry["rows"] for entry in report["tables"].values()]
    columns = [entry["columns"] for entry in report["tables"].values()]
    facts = {"tables": len(rows), "rows_from": min(rows), "rows_to": max(rows)}
    return facts | {"columns_from": min(columns), "columns_to": max(columns)}


def versions(report):
    held = {
        (METHODS[name].package, stored["version"])
        for entry in report["tables"].values()
        for name, stored in entry["methods"].items()
    }
    machine = report["machine"]
    where = f"{machine['cpu']}, one core for each fit, {machine['gigabytes']:.0f} GB, no GPU"
    return f"{where}. Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(held)) + ".\n"


def page(report):
    """Return the whole page."""
    losses = ", ".join(f"{loss} for {words}" for words, loss in KINDS.values())
    parts = [INTRODUCTION.format(**sizes(report)), "## Against the peers\n", against_peers(report)]
    parts += [
        "Each dot is a table: the default's loss over the peer's. The line is the geometric mean; dots beyond 0.4\n"
        "and 2.5 are drawn there.\n",
        "![Loss of the default over that of each peer, a dot for each table](images/real_tables.svg)\n",
        "## Our settings\n",
        among_ours(report),
        "## By kind of target\n\nGeometric mean of our loss over the peer's.\n",
        by_kind(report),
        f"## Where we lose\n\nThe {WORST} tables on which the best peer is furthest ahead of the default.\n",
        worst(report),
        below_empty(report),
        EVERY_TABLE,
        every_table(report),
        "## Fits without a result\n",
        errors(report),
        not_run(report),
        MEASURES.format(splits=report["splits"], losses=losses, seconds=report["limits"]["seconds"]),
        "## The tables\n",
        about_tables(report),
        versions(report),
    ]
    return "\n".join(part for part in parts if part)


def readme_part(report):
    """Return the part of README between its marks."""
    lines = []
    for peer in peers_of(report):
        default, mains = (compare(report, ours, peer) for ours in OURS[:2])
        cells = [cell(found) for found in (default, mains) for cell in (loss_cell, verdict_cell, cpu_cell)]
        lines.append([label(peer), str(len(default.ratios)), *cells])
    heads = (
        "peer",
        "tables",
        "loss, nothing set",
        "better, tied, worse",
        "CPU",
        "loss, `pairs=0`",
        "better, tied, worse",
        "CPU",
    )
    return README_TEXT.format(
        **sizes(report),
        splits=report["splits"],
        seconds=report["limits"]["seconds"],
        rows=table(heads, lines),
        missing=not_run(report),
    )


def with_part(text, part, marks=MARKS):
    """Return a text with the part between its marks replaced."""
    before, rest = text.split(marks[0])
    return f"{before}{marks[0]}\n{part}{marks[1]}{rest.split(marks[1])[1]}"


def draw(report):
    """Draw a dot for each table and peer."""
    import math

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    matplotlib.rcParams["svg.hashsalt"] = "sparsenam"
    found = {peer: compare(report, OURS[0], peer) for peer in peers_of(report)}
    figure, axes = plt.subplots(figsize=(8.0, 0.75 * len(found) + 1.1), layout="constrained")
    for place, (_, comparison) in enumerate(found.items()):
        ratios = np.clip(sorted(comparison.ratios.values()), 0.4, 2.5)
        offsets = 0.3 * ((np.arange(ratios.size) * 0.618) % 1.0 - 0.5) * 2.0  # spread out, the same in every drawing
        colors = np.where(ratios > 1.0, "#b5483a", "#2b6a99")
        axes.scatter(ratios, place + offsets, s=14, c=colors, alpha=0.75, linewidths=0)
        axes.plot([comparison.loss[0]] * 2, [place - 0.38, place + 0.38], color="black", linewidth=2)
    axes.axvline(1.0, color="0.6", linewidth=1, zorder=0)
    axes.set_xscale("log")
    ticks = [0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(found)), [label(peer) for peer in found])
    axes.invert_yaxis()
    spread = max(abs(math.log(ratio)) for comparison in found.values() for ratio in comparison.ratios.values())
    axes.set_xlim(math.exp(-min(spread, 0.95)) / 1.04, math.exp(min(spread, 0.95)) * 1.04)
    axes.set_xlabel("our loss over the peer's: left of 1, ours is lower")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.savefig(PICTURE, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", dest="prints", help="show the page and write nothing")
    wanted = parser.parse_args()
    report = json.loads(JSON.read_text())
    if wanted.prints:
        print(page(report))
        print(readme_part(report))
        return
    PAGE.write_text(page(report))
    README.write_text(with_part(README.read_text(), readme_part(report)))
    draw(report)


if __name__ == "__main__":
    main()
