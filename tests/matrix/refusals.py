"""What is refused, and with which sentence; what is not in here works.

In a sentence, […] stands for words that depend on the call; other names are those of the tests' table.
"""

import re
from dataclasses import dataclass

INPUT, BANDS, EXPORT = "InputError", "BandsRefusedError", "ExportError"


def says(text, sentence):
    """Return whether a text is a sentence, whatever stands for its […]."""
    return re.fullmatch(".*".join(map(re.escape, sentence.split("[…]"))), text) is not None


@dataclass(frozen=True)
class Refusal:
    """The name of an exception's type and its sentence."""

    kind: str
    sentence: str

    def fits(self, error):
        """Return whether an exception is this refusal."""
        return type(error).__name__ == self.kind and says(str(error), self.sentence)


NO_POSTERIOR = Refusal(
    BANDS,
    "bands: none would hold here, since bands come from the smooth fit, and this model was fitted in another way; "
    "look at curves without limits.",
)
NO_ERRORS = Refusal(
    INPUT,
    "predict_[…]: expected a smooth fit by this version, which knows its left-out errors, got a model without them; "
    "call calibrate with new rows or with cv=5, or fit again.",
)
NO_DIRECT_EDIT = Refusal(
    INPUT,
    "edit: expected piecewise linear effects, got the activation 'gelu'; fit without a network, or with "
    "activation='relu'.",
)
NOT_PIECEWISE = Refusal(
    EXPORT,
    "model to export: expected piecewise linear effects, got networks with the activation 'gelu'; fit without "
    "network=, or with activation='relu'.",
)
NO_SCORECARD = Refusal(
    EXPORT, "scorecard: expected a model of two classes, got one of […]; fit a classifier of two classes."
)
CODE = ("JSON", "Python", "C", "JavaScript", "SQL", "PMML", "ONNX")

# (way, use): the refusal; scorecards of other models than those of two classes are added below
REFUSALS = {
    ("survival", "intervals"): Refusal(
        INPUT,
        "predict_interval: expected a regressor, got a model of survival times; read quantiles of the time from "
        "predict_survival_function.",
    ),
    ("survival", "calibrate"): Refusal(
        INPUT,
        "calibrate: expected a regressor or a classifier, got a model of survival times; read quantiles of the time "
        "from predict_survival_function.",
    ),
    ("network", "bands"): NO_POSTERIOR,
    ("network", "intervals"): NO_ERRORS,
    ("GELU network", "bands"): NO_POSTERIOR,
    ("GELU network", "intervals"): NO_ERRORS,
    ("GELU network", "edit"): NO_DIRECT_EDIT,
    ("GELU network", "drop"): NO_DIRECT_EDIT,
    **{("GELU network", use): NOT_PIECEWISE for use in (*CODE, "scorecard")},
    ("random features", "bands"): NO_POSTERIOR,
    ("random features", "intervals"): NO_ERRORS,
    ("edited", "intervals"): Refusal(
        INPUT,
        "predict_[…]: expected the model that the errors are of, got edits since; call calibrate with new rows after "
        "the edits.",
    ),
}

# (way, use): what works with a reservation, as a warning or as the reason for a column without limits says it
RESERVATIONS = {
    ("shapes", "bands"): "no limits for dose: its shape was asked for, and bands take curves as free",
    ("edited", "bands"): "no limits for dose: it was edited after the fit",
    ("groups", "save"): "settings that are no plain data are not in […]: cv.",
}


def not_in_blocks(what):
    """Return the refusal of a setting that needs all rows at once, for a table that is not in memory."""
    expected = "a table that is not in memory: expected a fit that reads its rows block by block"
    remedy = "leave that out, or read a table of some rows into memory"
    return Refusal(INPUT, f"{expected}, got {what}; {remedy}.")


def _of_networks(one, refusal):
    return {(one, network): refusal for network in ("network", "GELU network")}


# two ways that cannot be asked for together
APART = {
    **_of_networks(
        "pairs",
        Refusal(
            INPUT,
            "pairs: expected the smooth fit, got [('age', 'dose')] with a network; leave network and refit out, or set "
            "pairs=0.",
        ),
    ),
    ("shapes", "Parquet"): not_in_blocks("shapes"),
    **_of_networks(
        "shapes",
        Refusal(
            INPUT,
            "shapes: expected its default None, got {'dose': 'increasing'}, which could not act: a network trains "
            "functions of no such form; leave it out.",
        ),
    ),
    **_of_networks(
        "counts as weights",
        Refusal(
            INPUT,
            "weights: expected its default 'relative', got 'counts', which could not act: only the smooth fit depends "
            "on how many rows there are; leave it out.",
        ),
    ),
    ("groups", "Parquet"): not_in_blocks("groups, or several labels"),
    ("several outputs", "Parquet"): Refusal(
        INPUT,
        "y: expected the name of the target's column, for a table that is not in memory, got ndarray; write for "
        "example fit(table, 'price').",
    ),
    ("survival", "Parquet"): not_in_blocks("survival times"),
    ("Parquet", "random features"): not_in_blocks("refit=False or a random-feature model"),
    ("GELU network", "edited"): NO_DIRECT_EDIT,
    ("random features", "FDR"): Refusal(
        INPUT,
        "rule=FDR(…): expected a fit of the discovered columns alone, got a random-feature model, which keeps its "
        "penalty; use SNAMRegressor or SNAMClassifier.",
    ),
}


def refusal_of(way, use):
    """Return the refusal of a use of a model fitted in a way; None where it works."""
    if use == "scorecard" and way not in ("two classes", "GELU network"):
        return NO_SCORECARD
    return REFUSALS.get((way, use))
