"""One fit of one library on one table, in a process that does nothing else: time, loss, columns kept, memory.

    python benchmarks/bench_worker.py PEER DATA.npz RESULT.json CORES [SETTINGS]

SETTINGS are parameters of the fit as JSON, which functions of sparsenam take. `bench.py` starts it in the library's
interpreter. Memory is the highest resident size up to the end of the fit over that before the data were read, with the
libraries already imported.
"""

import importlib
import json
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from bench_peers import PEERS, Task

MOST_CELLS = 20_000_000  # predicting 10⁵ rows of 10,000 columns would need 8 GB: fewer rows are timed and scaled up


def read(path, cores):
    """Return the task, and the fresh rows with their target."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    halves = [arrays[half] if half in arrays else frame_of(arrays, half) for half in ("X", "X_test")]
    task = Task(str(arrays["kind"]), halves[0], arrays["y"], int(arrays["seed"]), cores)
    return task, halves[1], arrays["y_test"], arrays["true_columns"].tolist()


def frame_of(arrays, half):
    """Return a pandas table of numbers, truth values and text; missing text is None."""
    import pandas as pd

    columns = {}
    for name in arrays["names"]:
        values = arrays[f"{half}/{name}"]
        if values.dtype.kind == "U":
            values = np.where(values == "", None, values.astype(object))
        columns[str(name)] = pd.Series(values, dtype=object if values.dtype.kind == "O" else None)
    return pd.DataFrame(columns)


def megabytes(field):
    """Return VmRSS (resident now) or VmHWM (the highest so far) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")


def forget_peak():
    """Let the highest resident size begin anew; where the system refuses, that of the imports may count too."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def timed(call, most=5, seconds=5.0):
    """Return the median time of a call, repeated up to ``most`` times while there is time; the first is a rehearsal."""
    call()
    times = []
    while len(times) < most and sum(times) < seconds:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def losses(kind, predicted, y):
    """Return the mean squared error, or log loss and the share of right classes."""
    predicted = np.asarray(predicted, float).ravel()
    if not np.isfinite(predicted).all():
        raise ValueError("predictions are not finite")
    if kind == "regression":
        return {"loss": float(np.mean((predicted - y) ** 2)), "empty_loss": float(np.var(y))}
    clipped, share = np.clip(predicted, 1e-12, 1 - 1e-12), float(y.mean())
    empty = -share * np.log(share) - (1 - share) * np.log1p(-share)
    log_loss = -np.mean(np.where(y == 1, np.log(clipped), np.log1p(-clipped)))
    return {"loss": float(log_loss), "accuracy": float(np.mean((predicted > 0.5) == y)), "empty_loss": float(empty)}


def rows_to_predict(X, columns):
    """Return 10⁵ rows, or as many as fit into `MOST_CELLS`, drawn from the fresh rows."""
    count = min(100_000, MOST_CELLS // columns)
    rows = np.arange(count) % len(X)
    return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows].reset_index(drop=True)


def measure(peer, path, cores, settings):
    before = megabytes("VmRSS")
    task, X_test, y_test, true = read(path, cores)
    forget_peak()
    started, on_cpu = time.perf_counter(), time.process_time()
    fitted = peer.fit(task, **settings)
    record = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - on_cpu}
    record["megabytes"] = megabytes("VmHWM") - before
    record |= losses(task.kind, fitted.predict(X_test), y_test) | {"kept": len(fitted.kept)}
    if true:
        record |= {"found": len(set(true) & set(fitted.kept)), "false": len(set(fitted.kept) - set(true))}
    many, one = rows_to_predict(X_test, task.X.shape[1]), X_test[:1]
    record["predict_seconds"] = timed(lambda: fitted.predict(many)) * 100_000 / len(many)
    record["row_milliseconds"] = 1e3 * timed(lambda: fitted.predict(one), most=20)
    return record


def main():
    name, data, result, cores, *settings = sys.argv[1:]
    peer = PEERS[name]
    try:
        for module in ("pandas", "sklearn.compose", "sklearn.impute", "scipy.interpolate", *peer.modules):
            importlib.import_module(module)
        record = measure(peer, data, int(cores), json.loads(settings[0]) if settings else {})
    except Exception as error:
        traceback.print_exc()
        sentence = " ".join(str(error).split())
        record = {"refused": f"{type(error).__name__}: {sentence}"[:200]}
    Path(result).write_text(json.dumps(record))


if __name__ == "__main__":
    main()
