"""Small tables for tests of the command, and the command itself."""

import csv

import numpy as np
from typer.testing import CliRunner

from sparsenam.cli.app import app


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def houses_table(rows=120, seed=0):
    """Return columns of text: three that matter for the price, one that does not."""
    random = np.random.default_rng(seed)
    size, age, noise = random.uniform(40, 200, rows), random.uniform(0, 90, rows), random.normal(size=rows)
    zone = random.choice(["north", "south", "east"], rows)
    price = 3 * size + 60 * (zone == "north") + 10 * np.sin(age / 10) + random.normal(size=rows)
    numbers = {"size": size, "age": age, "noise": noise}
    return {name: [f"{value:.3f}" for value in cells] for name, cells in numbers.items()} | {
        "zone": list(zone),
        "price": [f"{value:.3f}" for value in price],
    }


def write_csv(path, cells):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))
    return path
