"""The figures of the theory experiments from the summaries in their report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sparsenam.paper.experiments.recovery import VERSIONS
from sparsenam.paper.figures import draw_estimation_error, draw_flows, draw_identification, draw_recovery

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sparsenam.paper.figures.theory import Recovery

Summaries = Mapping[str, Mapping[str, Any]]
NETWORK = "network "
FALSE = "all false features together"


def theory_figures(report: Mapping[str, object]) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield a name and a drawing for each part of each experiment."""
    summaries = cast(Summaries, report["summaries"])
    for name, own in _parts(summaries, "estimation", "by_estimator"):
        yield f"estimation-{name}", partial(draw_estimation_error, own, summaries["estimation"]["theorem_slope"])
    for name, own in _parts(summaries, "recovery", "by_design"):
        yield f"recovery-{name}", partial(draw_recovery, _recovery(summaries, name, own))
    for name, own in _parts(summaries, "identification", "by_estimator"):
        errors = {FALSE if effect == "noise" else str(effect): values for effect, values in own["error"].items()}
        yield f"identification-{name}", partial(draw_identification, {"n": own["n"], "error": errors})
    yield from _flow_figures(summaries.get("flows", {}))


def _recovery(summaries: Summaries, design: str, own: Mapping[str, Any]) -> Recovery:
    theorem = [row for row in summaries["recovery"]["theory"] if row["design"] == design]
    return {
        "n": own["n"],
        "multipliers": own["multipliers"],
        "probability": own["probability"],
        "theory_lambda_ratio": {_worded(version): [row[version] for row in theorem] for version in VERSIONS},
    }


def _flow_figures(flows: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield the convex problem and the network apart: their objectives are two different ones."""
    convex = {_worded(name): own for name, own in flows.items() if not name.startswith(NETWORK)}
    network = {_worded(name.removeprefix(NETWORK)): own for name, own in flows.items() if name.startswith(NETWORK)}
    if convex:
        yield "flows-convex", partial(draw_flows, convex, "the convex problem of random features")
    if network:
        title = "the network; its optimum is the lowest objective that was seen"
        yield "flows-network", partial(draw_flows, network, title)


def _parts(summaries: Summaries, experiment: str, key: str) -> list[tuple[str, Any]]:
    return list(summaries[experiment][key].items()) if experiment in summaries else []


def _worded(name: str) -> str:
    return name.replace("_", " ")
