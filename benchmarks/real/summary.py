"""From the records of `bench_real.py` to figures: ratios of losses and of time, and what is beyond noise."""

import math
import statistics

TEST_SHARE = 0.25  # of the rows, in every split


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
