"""The page of capabilities, written from what the tests declare."""

from pathlib import Path

from matrix.checks import EXPORTS, USES
from matrix.refusals import APART, RESERVATIONS, refusal_of
from matrix.scenarios import AT_ONCE, WAYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "capabilities.md"

INTRODUCTION = """\
# What works together

This page says what you can do with a model, depending on how it was fitted. Each cell of the tables below is a test:
the model is fitted to a small table, used, and its numbers are compared. ✓ means that they agree. ✗ means that the use
is refused; the footnote has the exception and its sentence. In a sentence, […] stands for words that depend on the
call; names such as 'dose' are those of the tests' table.

To change the page, change what `tests/matrix` declares and run `make capabilities`; the tests fail while the page and
the library differ.

## Ways to fit

"""

USES_TEXT = """
## Uses

| use | what is checked |
|---|---|
| kept columns | `predict` needs only the kept columns, in any order, and gives the same bits |
| sum | the intercept, `effects` and `interaction_effects` add up to the score |
| bands | `effect_bands` has limits about every effect; those of whole curves are wider |
| intervals | `predict_interval`, or `predict_set` for classes, covers the rows at its level |
| calibrate | the same after `calibrate(X, y)` |
| explain | `explain` has the model's curves and levels, and the parts of `explain_local` add up |
| report | `explain().report(…)` is one well-formed file that shows every kept column |
| save | `load` gives a model with the same predictions and effects to the bit |
| edit | `edit().flatten(…)` makes a curve flat, and `undo` brings back the same bits |
| drop | `edit().drop(…)` takes away the effect of the column and its pairs, nothing else; `undo` brings back the bits |
| audit | `audit` tests every dropped column, and its means are those of the predictions |
| compare | `compare` finds no difference from the model itself, and the right one from another model |
| stability | `stability` keeps the columns that matter in at least as many half-samples as any other |

"""

EXPORTS_TEXT = """
## Exports

Each file is run, and its scores are compared with those of the model: JSON, Python, C and JavaScript give the same
numbers to the bit, SQL (DuckDB), PMML and ONNX to 1e-12, and the points of a scorecard are off by no more than the card
states. JSON is read back and run as Python.

"""

APART_TEXT = """
## Two ways at once

Any two of these ways can be asked for in one fit, and the model can then do what a model of either way can do, but for
these pairs, which `fit` (or `edit`) refuses:

| together | sentence |
|---|---|
"""

EXCLUDED_TEXT = """
Some ways exclude each other by what they are. A model has one kind of target (a number, numbers with exposure, several
outputs, two classes, more classes, or survival times), one meaning of its weights, and is a smooth fit, a network or a
model of random features. The random feature estimators have no parameters `pairs`, `shapes` and `weights`, and there is
none for survival times.

A large table in memory is fitted to all rows at once, without a sample, where the fit needs that: with {at_once}.
"""


def page():
    """Return the text of the page."""
    notes = Footnotes()
    ways = _table(("way", "how"), [(name, how) for name, (_, how) in WAYS.items()])
    tables = [_matrix(uses, notes) for uses in (USES, EXPORTS)]
    *others, last = AT_ONCE
    excluded = EXCLUDED_TEXT.format(at_once=f"{', '.join(others)} and {last}")
    apart = "".join(f"| {one} + {other} | {_sentence(refusal)} |\n" for (one, other), refusal in APART.items())
    parts = [INTRODUCTION, ways, USES_TEXT, tables[0], EXPORTS_TEXT, tables[1], APART_TEXT, apart, excluded]
    return "".join([*parts, "\n", *notes.lines()])


class Footnotes:
    """Numbered notes, each text once."""

    def __init__(self):
        self.texts = []

    def mark(self, text):
        """Return the mark of a note, which is added where it is new."""
        if text not in self.texts:
            self.texts.append(text)
        return f"[^{self.texts.index(text) + 1}]"

    def lines(self):
        return [f"[^{number}]: {text}\n" for number, text in enumerate(self.texts, 1)]


def _matrix(uses, notes):
    return _table(("fitted with", *uses), [(way, *(_cell(way, use, notes) for use in uses)) for way in WAYS])


def _cell(way, use, notes):
    refusal = refusal_of(way, use)
    if refusal is not None:
        return "✗" + notes.mark(_sentence(refusal))
    if (way, use) in RESERVATIONS:
        return "✓" + notes.mark(f"Works, but: `{RESERVATIONS[way, use]}`")
    return "✓"


def _sentence(refusal):
    return f"`{refusal.kind}`: `{refusal.sentence}`"


def _table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("| --- ", "|---").replace("|--- |", "|---|") for cells in lines)
