"""Writes version-3.snam and version-3.json, a small model file of schema 3 and what it predicts.

Run from the repository's root: python tests/data/write_version_3.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from sparsenam import SNAMClassifier

FOLDER = Path(__file__).parent
ROWS, SHOWN = 240, 12


def main():
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": generator.uniform(18, 80, ROWS).round(1),
            "income": generator.lognormal(10, 0.6, ROWS).round(),
            "town": generator.choice(["north", "south", "west"], ROWS),
        }
    )
    table.loc[::9, "income"] = np.nan
    score = 2 * np.sin(table["age"] / 10) + 2 * (table["town"] == "north") + 2 * table["income"].isna()
    target = np.where(score + generator.logistic(scale=0.5, size=ROWS) > 0.7, "yes", "no")
    model = SNAMClassifier(random_state=0).fit(table, target)
    model.save(FOLDER / "version-3.snam")
    shown = table.head(SHOWN)
    content = {
        "table": {name: [None if cell != cell else cell for cell in shown[name]] for name in shown},
        "classes": model.classes_.tolist(),
        "probabilities": model.predict_proba(shown).tolist(),
    }
    (FOLDER / "version-3.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
