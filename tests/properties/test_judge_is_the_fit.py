"""The held-out loss by which a support is judged is that of refitting the support in the folds."""

import numpy as np
import pytest

from sparsenam.context import Context, Streams
from sparsenam.convex.design import RampFeatures
from sparsenam.families import Binomial, Gaussian, Multinomial, Poisson
from sparsenam.penalties import GroupLasso
from sparsenam.selection.choose import FamilyLoss, HeldOutJudge
from sparsenam.selection.task import ConvexTask
from sparsenam.smooth.design import Layout
from sparsenam.smooth.engine import SmoothProblem, Steps, solve
from sparsenam.smooth.fit import MemoryRows
from sparsenam.tables.sample import Sample, prepare

FAMILIES = {"gaussian": Gaussian(), "binomial": Binomial(), "poisson": Poisson(), "multinomial": Multinomial()}
# The judge leaves out the roughest directions of a term's ramps, which have 2 % of its degrees of freedom in the
# design, and ends its updates by other tests. Both losses are shares of that of the empty model.
TOLERANCE = 0.02


def task_of(case, seed, rows=240):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 6))
    X[:, 4] = X[:, 4] > 0.5
    signal = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) - 0.5 * X[:, 2] + X[:, 4]
    target = {
        "gaussian": lambda: signal + generator.normal(size=rows),
        "binomial": lambda: (generator.uniform(size=rows) < 1 / (1 + np.exp(-signal))).astype(float),
        "poisson": lambda: generator.poisson(np.exp(0.5 * signal)).astype(float),
        "multinomial": lambda: np.eye(3)[
            np.argmax(np.outer(signal, [1.0, 0.0, -1.0]) + generator.gumbel(size=(rows, 3)), axis=1)
        ],
    }[case]()
    family = FAMILIES[case]
    sample = Sample(X, target.reshape(rows, -1), np.ones(rows), [f"x{column}" for column in range(6)])
    prepared = prepare(sample, standardize=True)
    terms = np.arange(6)
    return ConvexTask.of(prepared, family, RampFeatures(prepared, 16), GroupLasso(), terms, tuple(map(str, terms)))


def refitted(task, groups, splits):
    """Return the mean held-out loss of fits of the engine on each fold's rows, with the ramps of the design."""
    prepared, family = task.prepared, task.family
    layout = Layout.of([task.features.ramps()[group][0] for group in groups])
    losses = np.zeros(len(prepared.target))
    for train, test in splits:
        x, target = prepared.x[groups], prepared.target
        rows = SmoothProblem(x[:, train], target[train], prepared.weights[train], family)
        state = solve(MemoryRows(rows, layout), None, Steps(Context(Streams(0))))
        scores = np.tile(state.intercept, (test.size, 1))
        for ramps, columns, cells in zip(layout.ramps, layout.slices, x[:, test], strict=True):
            scores += ramps.columns(cells) @ state.coefficients[columns]
        losses[test] = family.loss(scores, target[test]) + family.conjugate(target[test], target[test])
    return losses.mean()


@pytest.mark.parametrize("case", FAMILIES)
@pytest.mark.parametrize("support", [[0], [0, 1, 4], [0, 1, 2, 3, 4, 5]])
def test_a_support_is_judged_by_what_refitting_it_in_the_folds_gives(case, support):
    task = task_of(case, seed=len(support))
    folds, rows = np.arange(240) % 4, np.arange(240)
    splits = [(rows[folds != fold], rows[folds == fold]) for fold in range(4)]
    judge, groups = HeldOutJudge(task, splits, FamilyLoss.of(task, splits)), np.array(support)
    null, judged = (judge.losses_of(kept).mean() for kept in (np.zeros(0, dtype=np.intp), groups))
    assert judged / null == pytest.approx(refitted(task, groups, splits) / null, abs=TOLERANCE)
