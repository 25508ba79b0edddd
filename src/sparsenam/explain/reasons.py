"""Why a model keeps a column or drops it, and what to know before trusting the choice, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sparsenam.explain.explanation import Dropped
from sparsenam.fit.pipeline import Fit
from sparsenam.penalties import as_penalty
from sparsenam.tables.encoder import Term
from sparsenam.tables.notes import far_values_note
from sparsenam.text import count_text
from sparsenam.training import Network

BARELY = 1.05  # times the penalty under which a column leaves


def kept_terms(fit: Fit, column: int) -> list[tuple[int, Term]]:
    """Return the terms of a column that the model keeps, each after its index in the model."""
    terms = ((index, fit.encoder.terms[int(term)]) for index, term in enumerate(fit.model.terms))
    return [(index, term) for index, term in terms if term.column == column]


def column_asked(fit: Fit, column: int) -> object:
    """Return the shape that was asked of a column, None where none was."""
    shapes: Mapping[object, object] = fit.settings.get("shapes") or {}
    return shapes.get(fit.encoder.columns[column].name, shapes.get(column))


def notes_of(fit: Fit) -> list[str]:
    """Return what to know before trusting the choice."""
    evidence, found, bands = fit.evidence, fit.discoveries, fit.bands
    notes = [] if fit.summary.cut_short is None else [fit.summary.cut_short]
    if fit.edits:
        changes = count_text(len(fit.edits), "change")
        what = "certificate, held-out losses, folds and path are those of the fit, not of the edited model"
        notes.append(f"The model was edited after the fit ({changes}): {what}.")
    notes += [] if found is None else [found.sentence(), *found.notes()]
    notes += [] if evidence is None else evidence.notes()
    notes += far_values_note(fit.encoder.columns)
    # of models that never have bands the information is not a number
    if bands is not None and bands.reason and fit.model.terms.size and not np.isnan(bands.information):
        shown = "Bands about the curves are approximate" if bands.verdict == "approximate" else "No bands are shown"
        notes.append(f"{shown}: {bands.reason}.")
    return notes


def why_kept(fit: Fit, column: int) -> str:
    """Return why a column is kept."""
    encoder = fit.encoder
    name, gaps = encoder.columns[column].name, encoder.columns[column].missing_term
    if all(term.kind == "missing" for _, term in kept_terms(fit, column)):
        others = [repr(other.name) for other in encoder.columns if other.missing_term == gaps and other.name != name]
        shared = f" ({', '.join(others)} missing in the same rows)" if others else ""
        return f"its values do not matter, its missing cells do{shared}"
    asked = fit.settings.get("always_keep") or ()
    if name in asked or column in asked:
        return "it was asked to stay, and is not penalised"
    if fit.discoveries is not None:
        return f"it is a discovery at a false discovery rate of {fit.discoveries.q:g}"
    if fit.alpha == 0.0:
        return "no penalty: every column stays"
    return _why_worth(fit, name)


def _why_worth(fit: Fit, name: str) -> str:
    """Return how much stronger the penalty would have to be for a column to leave, and whether others could serve."""
    path, instead = fit.summary.path, fit.substitutes.get(name)
    served = f"; {max(instead, key=instead.__getitem__)!r} could stand in for it" if instead else ""
    if path is None or name not in path.names or not fit.alpha > 0.0:
        return f"its effect is worth the penalty{served}"
    column = path.names.index(name)
    times = max((alpha for alpha, row in zip(path.alphas, path.norms, strict=True) if row[column] > 0.0), default=0.0)
    times /= fit.alpha
    if times < BARELY:
        return f"it is barely worth the penalty{served}"
    return f"it would stay under {times:.2g} times the penalty{served}"


def why_pair(fit: Fit) -> str:
    """Return why a pair is kept."""
    asked = fit.settings.get("pairs")
    if isinstance(asked, Sequence) and not isinstance(asked, str):
        return "it was asked for"
    return "what the two columns do together is worth the penalty"


def why_dropped(fit: Fit, columns: Sequence[int]) -> list[Dropped]:
    """Return dropped columns with the reasons."""
    encoder, constant = fit.encoder, set(fit.summary.constant)
    with_terms, kept = {term.column for term in encoder.terms}, {encoder.names[index] for index in fit.kept}
    found = () if fit.discoveries is None else frozenset(fit.discoveries.kept)
    edited = {edit.column: edit.reason for edit in fit.edits}
    dropped = list[Dropped]()
    for index in columns:
        column = encoder.columns[index]
        name, slack, twin = column.name, None, fit.summary.twins.get(column.name)
        if column.is_identifier and index not in with_terms:
            reason = "an identifier: nearly every cell is different"
        elif column.is_empty:
            reason = "empty: no row has a value"
        elif column.kind == "constant" and index not in with_terms:
            reason = f"constant: one single value ({column.levels[0]})"
        elif name in constant:
            reason = "constant in the rows that count"
        elif name in edited:
            reason = f"dropped by an edit: {edited[name]}"
        elif twin is not None:
            too = "" if twin in kept else ", which is dropped too"
            reason, slack = f"equal to {twin!r} in every row, up to unit and sign{too}", _slack(fit, name)
        else:
            dropped.append(_why_left_out(fit, index, found))
            continue
        dropped.append(Dropped(name, reason, slack))
    return dropped


def _slack(fit: Fit, name: str) -> float | None:
    """Return the certified share of the gradient at which a column, or its group, would enter."""
    return None if fit.certificate is None else fit.certificate.slack.get(name)


def _why_left_out(fit: Fit, column: int, found: Collection[str]) -> Dropped:
    """Return why the fit left out a column that varies; ``found`` are the discoveries."""
    name = fit.encoder.columns[column].name
    slack = _slack(fit, name)
    if fit.discoveries is not None and name not in found:
        return Dropped(name, f"no discovery at a false discovery rate of {fit.discoveries.q:g}", slack)
    if slack is not None:
        reason = f"its gradient is {slack:.2f} of the alpha at which it would enter"
        return Dropped(name, reason, slack, by_penalty=True)
    if column_asked(fit, column) is not None and fit.norms[column] == 0.0:
        return Dropped(name, "the data speak against the shape that was asked for")
    if fit.summary.cut_short is not None:
        return Dropped(name, "the fit was cut short before it could enter")
    if fit.certificate is not None:
        return Dropped(name, "the convex problem kept it, but the training under the penalty switched it off")
    network = fit.settings.get("network")
    if isinstance(network, Network) and not network.solver_for(as_penalty(fit.settings["penalty"])).proximal:
        # a solver without exact zeros
        return Dropped(name, f"its mean absolute effect stayed within the threshold of {network.threshold:g}")
    return Dropped(name, "the penalty switched its sub-network off")
