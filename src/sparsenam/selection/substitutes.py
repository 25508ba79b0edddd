"""Terms that could take the place of a kept one."""

from __future__ import annotations

import numpy as np

from sparsenam.model import AdditiveModel
from sparsenam.model.additive import fill_absent, outputs_of
from sparsenam.selection.choose import FeatureChoice
from sparsenam.tables import PreparedSample

ALIKE = 0.9  # share of a kept feature's effect that a stand-in must be able to express


def stand_ins_of(choice: FeatureChoice, model: AdditiveModel) -> dict[str, dict[str, float]]:
    """Return for each kept feature the others that express its effect, with the share they express.

    The share is ‖Qₖᵀ W fⱼ‖²/‖fⱼ‖², the part of effect j's variance over the training rows that some function of
    feature k has; columns equal to j in every row have 1.
    """
    task, prepared = choice.task, choice.task.prepared
    place_of = {int(feature): place for place, feature in enumerate(prepared.terms)}
    places = np.array([place_of[int(feature)] for feature in model.terms], dtype=np.intp)
    found = twins_of(prepared, model)
    names = [prepared.names[int(place)] for place in places]
    members = prepared.grouping.members
    if not places.size:
        return found
    x = prepared.x[places]
    effects = outputs_of(model.bank, model.theta, x) - model.offsets[:, None]
    fill_absent(effects, x, model.absent)
    shares = prepared.weights / prepared.weights.sum()
    sizes = np.einsum("jik,jik,i->j", effects, effects, shares)
    weighted = (effects * shares[:, None]).transpose(1, 0, 2).reshape(shares.size, -1)
    for group, own in enumerate(members):
        block = task.design.blocks[group]
        products = (block @ weighted.astype(block.dtype)).reshape(block.shape[0], places.size, -1)
        expressed = np.einsum("mjk,mjk->j", products, products) / np.maximum(sizes, np.finfo(np.float64).tiny)
        expressed[np.isin(places, own)] = 0.0  # of a feature's own group
        for row in np.flatnonzero(expressed >= ALIKE):
            name = " + ".join(prepared.names[int(place)] for place in own)
            found.setdefault(names[int(row)], {})[name] = round(float(min(expressed[row], 1.0)), 4)
    return found


def twins_of(prepared: PreparedSample, model: AdditiveModel) -> dict[str, dict[str, float]]:
    """Return for each kept feature the columns that were left out because they equal it."""
    names = [name for feature, name in zip(prepared.terms, prepared.names, strict=True) if feature in model.terms]
    return {name: dict.fromkeys(prepared.twins[name], 1.0) for name in names if name in prepared.twins}
