"""Experiments on the paper's theorems: independent cells in, JSON-able summaries out."""

from sparsenam.paper.experiments import estimation, flows, identification, recovery
from sparsenam.paper.experiments.runner import Experiment, Progress, run
from sparsenam.paper.experiments.settings import theory_settings

EXPERIMENTS: dict[str, Experiment] = {
    "estimation": Experiment(estimation.cells, estimation.run_cell, estimation.summarise),
    "recovery": Experiment(recovery.cells, recovery.run_cell, recovery.summarise),
    "identification": Experiment(identification.cells, identification.run_cell, identification.summarise),
    "flows": Experiment(flows.cells, flows.run_cell, flows.summarise),
}

__all__ = ["EXPERIMENTS", "Experiment", "Progress", "run", "theory_settings"]
