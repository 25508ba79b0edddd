"""Print the tables of docs/benchmarks.md from the JSON files in benchmarks/results."""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
MEASURES = {"mse": "test MSE", "accuracy": "accuracy", "cross_entropy": "cross-entropy", "auc": "AUC"}
TASKS = ("regression", "classification", "correlated", "wide", "california", "superconductivity", "compas")


def rows(name: str) -> list[str]:
    """Return one table row for each method of a task."""
    report = json.loads((RESULTS / f"{name}.json").read_text())
    summary, records = report["summary"], report["records"]
    lines = []
    for method in ("sparsenam", "ebm"):
        if method not in summary:
            continue
        measures = summary[method]
        measured = ", ".join(f"{label} {measures[key]:.4g}" for key, label in MEASURES.items() if key in measures)
        runs = sum(record["method"] == method for record in records)
        kept = [record["features"] for record in records if "features" in record and record["method"] == method]
        features = f"{min(kept)} to {max(kept)}" if kept and min(kept) < max(kept) else f"{kept[0]}" if kept else "all"
        exact = (
            f"{summary['exact supports']} of {runs}" if method == "sparsenam" and "exact supports" in summary else ""
        )
        gap = f"{max(record['gap'] for record in records if 'gap' in record):.0e}" if kept else ""
        seconds = f"{measures['seconds']:.1f}"
        lines.append(f"| {name} | {method} | {runs} | {measured} | {features} | {exact} | {gap} | {seconds} |")
    ratio = summary.get("ebm seconds / ours, median")
    if ratio:
        lines.append(f"| | EBM's time over ours | | {ratio:.1f} | | | | |")
    return lines


def main() -> None:
    """Print all tasks that have a result."""
    print("| task | method | runs | measured, mean | features | exact support | largest gap | seconds, mean |")
    print("|---|---|---|---|---|---|---|---|")
    for name in TASKS:
        if (RESULTS / f"{name}.json").exists():
            print("\n".join(rows(name)))
    for name in ("step", "wide_path"):
        if (RESULTS / f"{name}.json").exists():
            print(f"\n{name}:\n\n```json\n{(RESULTS / f'{name}.json').read_text().strip()}\n```")


if __name__ == "__main__":
    main()
