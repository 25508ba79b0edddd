"""From the records of `bench_real.py` and `ablate.py` to figures: ratios of losses and of time, and their errors."""

import math
import statistics
from dataclasses import dataclass

from .methods import METHODS
from .tables import TEST_SHARE

CLEAR = 2.0  # standard errors of the paired difference beyond which a table is won or lost


def mean_and_error(values):
    """Return the mean of values of different tables and its standard error."""
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def log_ratios(pairs):
    """Return log of the mean loss of the second records over that of the first, both of the same splits."""
    first, second = (sum(pair[place]["loss"] for pair in pairs) for place in (0, 1))
    return math.log(max(second, 1e-12) / max(first, 1e-12))


def shared_splits(methods, first, second):
    """Return the records of two methods on the splits where both have a result."""
    stored = [methods.get(name, {"splits": {}})["splits"] for name in (first, second)]
    seeds = [seed for seed in stored[0] if all("loss" in each.get(seed, {}) for each in stored)]
    return [(stored[0][seed], stored[1][seed]) for seed in seeds]


def difference(pairs):
    """Return the mean of second less first loss over splits, and its standard error.

    The variance is the larger of two estimates. One is that of the test rows, given the fits: that of the mean over
    blocks of rows, where rows of one split are among those of another with probability `TEST_SHARE`. The other is that
    between splits, whose training rows differ, times 1/k + test/train (Nadeau and Bengio, 2003).
    """
    means, variances = [], []
    for one, other in pairs:
        blocks = [second - first for first, second in zip(one["blocks"], other["blocks"], strict=True)]
        means.append(other["loss"] - one["loss"])
        variances.append(statistics.variance(blocks) / len(blocks))
    within = statistics.fmean(variances) * (1.0 + (len(pairs) - 1) * TEST_SHARE) / len(pairs)
    between = 0.0
    if len(pairs) > 1:
        between = statistics.variance(means) * (1.0 / len(pairs) + TEST_SHARE / (1.0 - TEST_SHARE))
    return statistics.fmean(means), math.sqrt(max(within, between))


@dataclass(frozen=True)
class Comparison:
    """One of our fits against a peer: over which tables, and how.

    ``ratios`` has our loss over the peer's by table, ``verdicts`` how many tables are better, tied and worse, ``cpu``
    our CPU time over the peer's by table.
    """

    ratios: dict[str, float]
    verdicts: tuple[int, int, int]
    cpu: dict[str, float]

    @property
    def loss(self):
        """Geometric mean of the ratios of losses, with the factor that one standard error makes."""
        mean, error = mean_and_error([math.log(ratio) for ratio in self.ratios.values()])
        return math.exp(mean), math.exp(error)

    @property
    def median_cpu(self):
        return statistics.median(self.cpu.values())


def compare(report, ours, peer, kind=None):
    """Return the comparison on all tables where both have a result; ``None`` where there is no such table."""
    ratios, cpu, better, tied, worse = {}, {}, 0, 0, 0
    for table, entry in report["tables"].items():
        pairs = shared_splits(entry["methods"], peer, ours) if kind in (None, entry["kind"]) else []
        if not pairs:
            continue
        ratios[table] = math.exp(log_ratios(pairs))
        cpu[table] = sum(mine["cpu_seconds"] for _, mine in pairs) / sum(theirs["cpu_seconds"] for theirs, _ in pairs)
        mean, error = difference(pairs)
        better, worse = better + (mean < -CLEAR * error), worse + (mean > CLEAR * error)
        tied += abs(mean) <= CLEAR * error
    return Comparison(ratios, (better, tied, worse), cpu) if ratios else None


def losses_of(entry, method):
    """Return the losses of a method on the splits of a table where it has a result."""
    records = entry["methods"].get(method, {"splits": {}})["splits"].values()
    return [record["loss"] for record in records if "loss" in record]


def worst_tables(report, ours, peers, count):
    """Return the tables on which a peer is furthest ahead: table, our loss, peer, its loss, standard errors.

    Both losses are means over the splits where both have a result.
    """
    rows = []
    for table, entry in report["tables"].items():
        shared = {peer: shared_splits(entry["methods"], peer, ours) for peer in peers}
        shared = {peer: pairs for peer, pairs in shared.items() if pairs}
        if not shared:
            continue
        peer, pairs = max(shared.items(), key=lambda item: log_ratios(item[1]))
        theirs, mine = (statistics.fmean(pair[place]["loss"] for pair in pairs) for place in (0, 1))
        mean, error = difference(pairs)
        rows.append((table, mine, peer, theirs, mean / max(error, 1e-12)))
    return sorted(rows, key=lambda row: row[3] / row[1])[:count]


def worse_than_empty(report, ours):
    """Return the tables on which a fit is worse than the model without features, with its loss."""
    losses = {table: losses_of(entry, ours) for table, entry in report["tables"].items()}
    means = {table: statistics.fmean(held) for table, held in losses.items() if held}
    return {table: loss for table, loss in means.items() if loss > 1.005}


def errors_of(report):
    """Return the fits without a result: table, method, split and reason."""
    return [
        (table, method, split, record["error"])
        for table, entry in report["tables"].items()
        for method, stored in entry["methods"].items()
        for split, record in stored["splits"].items()
        if "error" in record
    ]


def peers_of(report):
    """Return the peers that have a result somewhere, in the order of the page."""
    held = {name for entry in report["tables"].values() for name in entry["methods"]}
    return [name for name in METHODS if name in held and METHODS[name].package != "sparsenam"]
