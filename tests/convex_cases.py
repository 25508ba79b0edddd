"""Small convex problems, shared by the tests of the solver."""

import numpy as np

from sparsenam.convex.design import grouped_design
from sparsenam.families import FAMILIES, Poisson

OUTPUTS = {"gaussian": 1, "multitask": 2, "binomial": 1, "multilabel": 2, "multinomial": 3, "poisson": 1}


def family_of(case):
    if case == "poisson":  # of a known dispersion, as the others are
        return Poisson("fixed")
    return FAMILIES["gaussian" if case == "multitask" else case]()


def grouped(seed=0, rows=80, groups=6, width=3, norm="function", **options):
    generator = np.random.default_rng(seed)
    raw = generator.normal(size=(groups, rows, width))
    raw += 0.5 * raw[:1]  # groups that share something make the order of the steps matter
    return grouped_design(lambda j: raw[j], groups, np.ones(rows), norm=norm, **options)


def target_of(case, design, seed=0):
    generator = np.random.default_rng(seed + 1)
    outputs = OUTPUTS[case]
    theta = generator.normal(size=(2, design.width, outputs))
    scores = design.combined(np.arange(2), theta.reshape(-1, outputs).T).T
    scores = scores / scores.std()
    if case in ("gaussian", "multitask"):
        return scores + 0.5 * generator.normal(size=scores.shape) + 2.0
    if case == "poisson":
        return generator.poisson(np.exp(np.clip(scores, -3, 2))).astype(float)
    if case == "multinomial":
        noise = generator.gumbel(size=scores.shape)
        return np.eye(outputs)[np.argmax(2 * scores + noise, axis=1)]
    return (generator.random(scores.shape) < 1 / (1 + np.exp(-2 * scores))).astype(float)


def objective(design, target, family, weights, theta, intercept, alpha, penalty):
    """Mean loss plus penalty, written from the definition; theta (groups, m, outputs)."""
    scores = intercept + np.einsum("pmn,pmo->no", design.blocks, theta)
    loss = np.average(family.loss(scores, target), weights=weights)
    return loss + penalty.value(np.sqrt(np.sum(theta**2, axis=(1, 2))), alpha)
