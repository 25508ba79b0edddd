"""Columns that could take the place of a kept one."""

from __future__ import annotations

import numpy as np

from sparsenam.model import AdditiveModel
from sparsenam.model.additive import fill_absent, outputs_of
from sparsenam.selection.convex_task import ConvexTask, Indices, Vector
from sparsenam.tables import PreparedSample, TableEncoder

ALIKE = 0.9  # share of a kept term's effect that a substitute must be able to express

Substitutes = dict[str, dict[str, float]]


def substitutes_of(task: ConvexTask, model: AdditiveModel, encoder: TableEncoder) -> Substitutes:
    """Return for each kept column the others that express its effect, with the share they express.

    The share is ‖Qₖᵀ W fⱼ‖²/‖fⱼ‖², the part of effect j's variance over the training rows that some function of
    group k has; columns equal to j in every row have 1.
    """
    prepared, column_of, columns = task.prepared, task.column_of, encoder.names
    found = twins_of(prepared, model, encoder)
    if not model.terms.size:
        return found
    indices = indices_of(prepared, model.terms)
    effects = centred_effects(prepared, model)
    shares = prepared.weights / prepared.weights.sum()
    sizes = np.einsum("jik,jik,i->j", effects, effects, shares)
    rows = (effects * shares[:, None]).transpose(1, 0, 2).reshape(shares.size, -1)
    for group, members in enumerate(prepared.grouping.members):
        block = task.design.blocks[group]
        products = (block @ rows.astype(block.dtype)).reshape(block.shape[0], indices.size, -1)
        expressed = np.einsum("mjk,mjk->j", products, products) / np.maximum(sizes, np.finfo(np.float64).tiny)
        in_group = np.unique(column_of[prepared.terms[members]])
        name = " + ".join(columns[int(column)] for column in in_group)
        for index in np.flatnonzero(expressed >= ALIKE):
            column = int(column_of[model.terms[index]])
            if indices[index] not in members and column not in in_group:
                share = round(float(min(expressed[index], 1.0)), 4)
                others = found.setdefault(columns[column], {})
                others[name] = max(share, others.get(name, 0.0))
    return found


def twins_of(prepared: PreparedSample, model: AdditiveModel, encoder: TableEncoder) -> Substitutes:
    """Return for each kept column those that were left out because they equal it in every row."""
    column_of = {term.name: encoder.names[term.column] for term in encoder.terms}
    found: Substitutes = {}
    for term in model.terms:
        name = encoder.terms[int(term)].name
        for twin in prepared.twins.get(name, ()):
            if column_of[twin] != column_of[name]:
                found.setdefault(column_of[name], {})[column_of[twin]] = 1.0
    return found


def centred_effects(prepared: PreparedSample, model: AdditiveModel) -> Vector:
    """Return the model's effects on the training rows and the scale of the fit, shape (kept, rows, outputs)."""
    x = prepared.x[indices_of(prepared, model.terms)]
    effects = outputs_of(model.bank, model.theta, x) - model.offsets[:, None]
    fill_absent(effects, x, model.absent)
    return effects


def indices_of(prepared: PreparedSample, terms: Indices) -> Indices:
    """Return the indices, among the prepared terms, of some of the encoder's terms."""
    index = {int(term): index for index, term in enumerate(prepared.terms)}
    return np.array([index[int(term)] for term in terms], dtype=np.intp)
