"""Kills at random moments: of ``sparsenam fit``, its loading included, and of a training with ``checkpoint=``.

Every case starts in an empty folder or in that of an older fit, is killed once or twice, and then runs to its end.
Nothing partial may be found after a kill, nothing of the older fit beside a new model, and in the end the predictions
must have the bits of a run that nobody killed, with no other files than its.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from threading import RLock

import numpy as np
from tqdm import tqdm

import sparsenam

KINDS = (*("command", "network") * 4, "loading")  # one case in nine loads everything, and may be killed at that
LATEST = 1.15  # of a whole run's time: some kills come too late
COLUMNS, ROWS = 6, 160


def table(folder):
    """Write a table of which three columns matter; return its path and the columns."""
    random = np.random.default_rng(7)
    X = random.normal(size=(ROWS, COLUMNS))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] + 0.3 * random.normal(size=ROWS)
    path = folder / "table.csv"
    names = ",".join([*(f"x{index}" for index in range(COLUMNS)), "y"])
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=names, comments="")
    return path


def words(path, out, seed=0, *more):
    return ["fit", str(path), "--target", "y", "--seed", str(seed), "--out", str(out), *more]


def train(path, out):
    """Train a small network with a checkpoint, and save it: what a user's script would do."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    network = sparsenam.Network(hidden=(16, 8), max_epochs=40, batch_size=32, checkpoint=Path(out, "checkpoint"))
    model = sparsenam.SNAMRegressor(alpha=0.02, network=network, random_state=0)
    model.fit(rows[:, :COLUMNS], rows[:, COLUMNS]).save(Path(out, "model.snam"))


def serve():
    """Run jobs, each in a fork of this process, which has loaded everything; say how each ended."""
    from sparsenam.cli.app import app

    # forks share the lock of progress bars, which a killed one may hold, and their thread does not outlive a fork
    tqdm.monitor_interval = 0
    tqdm.set_lock(RLock())
    printed = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryDirectory() as folder:  # some libraries are only loaded when they are used
        path = table(Path(folder))
        app(words(path, folder), standalone_mode=False)
        train(path, folder)
    os.dup2(printed, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until a child listens
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _work(job)
        worked = watch(child, job["seconds"], job["signal"])
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), worked]), flush=True)


def watch(child, seconds, number):
    """Send a signal to a child once it has worked for some seconds; return how long it worked until its end.

    Seconds are those of the processor, so that a busy machine does not move the moment to the start of the run.
    """
    started = time.monotonic()
    while True:
        # a child that has ended and is not yet waited for keeps its number
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        try:
            worked = int(Path(f"/proc/{child}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
        except OSError:
            worked = time.monotonic() - started
        if ended is not None:
            return worked
        if seconds is not None and worked >= seconds:
            os.kill(child, number)
            seconds = None
        time.sleep(0.001)


def _work(job):
    """Do a job in a child, and leave."""
    from sparsenam.cli import leave_at_once, main

    code = 0
    try:
        signal.signal(signal.SIGINT, leave_at_once)
        for stream, place in enumerate((os.devnull, os.devnull, job["log"])):
            os.dup2(os.open(place, os.O_RDWR | os.O_CREAT), stream)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if "train" in job:
            train(*job["train"])
        else:
            sys.argv = ["sparsenam", *job["fit"]]
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


class Runs:
    """Jobs in forks of a process that has loaded everything, or in processes that load it themselves."""

    def __init__(self):
        place = Path(__file__).resolve().parents[1]
        paths = [str(place), str(Path(sparsenam.__file__).parents[1])]
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
        code = "from fuzz.kills import serve; serve()"
        self.server = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )

    def run(self, job, seconds=None, *, loading=False, number=signal.SIGKILL, log=os.devnull):
        """Run a job, which gets a signal after some seconds; return its exit code, and the seconds that it worked."""
        if not loading:
            job = {**job, "seconds": seconds, "signal": int(number), "log": str(log)}
            self.server.stdin.write(json.dumps(job) + "\n")
            self.server.stdin.flush()
            return json.loads(self.server.stdout.readline())
        with open(log, "wb") as errors:
            streams = {"stdout": subprocess.DEVNULL, "stderr": errors, "env": self.environment}
            process = subprocess.Popen([sys.executable, "-m", "sparsenam", *job["fit"]], **streams)
            worked = watch(process.pid, seconds, number)
            return process.wait(), worked

    def close(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


class Reference:
    """What an unbroken run leaves: the bits of its predictions, its fingerprint, and how long it takes."""

    def __init__(self, runs, kind, path, folder):
        folder.mkdir()
        self.kind, self.path = kind, path
        self.rows = np.loadtxt(path, delimiter=",", skiprows=1)[:, :COLUMNS]
        ended, self.seconds = runs.run(self.job(folder, resume=False), loading=kind == "loading")
        assert ended == 0, f"the unbroken run of {kind} failed"
        self.bits = self.predictions(folder)
        self.files = sorted(file.name for file in folder.iterdir())
        self.fingerprint = self.metrics(folder).get("fingerprint")

    def job(self, folder, *, resume):
        if self.kind == "network":
            return {"train": [str(self.path), str(folder)]}
        return {"fit": words(self.path, folder, 0, *(["--resume"] if resume else []))}

    def predictions(self, folder):
        model = sparsenam.load(folder / "model.snam")
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            return model.predict(self.rows).tobytes()
        import pandas as pd

        return model.predict(pd.DataFrame(self.rows, columns=list(names))).tobytes()

    @staticmethod
    def metrics(folder):
        path = folder / "metrics.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def after_kill(reference, folder, older):
    """Return what is wrong in a folder after a kill."""
    model, report = folder / "model.snam", folder / "report.html"
    if not model.exists():
        return ["a model went"] if older is not None else []
    is_new = older is None or model.read_bytes() != (older / "model.snam").read_bytes()
    if is_new and reference.predictions(folder) != reference.bits:
        return ["the model predicts other bits"]
    if older is None or reference.kind == "network":
        return []
    found = []
    if report.exists() and is_new == (report.read_bytes() == (older / "report.html").read_bytes()):
        found.append("a report stands beside the model of another fit")
    metrics = reference.metrics(folder)
    if metrics and is_new != (metrics["fingerprint"] == reference.fingerprint):
        found.append("figures stand beside the model of another fit")
    return found


def at_end(reference, folder):
    """Return what is wrong in a folder when a killed fit has gone on to its end."""
    found = []
    if reference.predictions(folder) != reference.bits:
        found.append("the resumed model predicts other bits")
    files = sorted(file.name for file in folder.iterdir())
    if files != reference.files:
        found.append(f"there are {files}, after an unbroken run {reference.files}")
    if reference.fingerprint != reference.metrics(folder).get("fingerprint"):
        found.append("the figures are those of another fit")
    return found


def attack(seed, count, say):
    """Kill so many runs; return what did not hold."""
    random, findings, kills, landed = np.random.default_rng(seed), [], 0, 0
    place, runs = Path(tempfile.mkdtemp(prefix="kills")), Runs()
    try:
        path = table(place)
        references = {}
        older = place / "older"
        assert runs.run({"fit": words(path, older, 1)})[0] == 0
        case = 0
        while kills < count:
            kind = KINDS[case % len(KINDS)]
            if kind not in references:
                references[kind] = Reference(runs, kind, path, place / kind)
            reference, folder = references[kind], place / f"case{case}"
            beside = older if kind != "network" and random.random() < 0.5 else None
            shutil.copytree(beside, folder) if beside is not None else folder.mkdir()
            for turn in range(min(count - kills, 1 + int(random.random() < 0.3))):
                moment = float(random.uniform(0, LATEST)) * reference.seconds
                job = reference.job(folder, resume=turn > 0)
                ended, _ = runs.run(job, moment, loading=kind == "loading")
                kills, landed = kills + 1, landed + int(ended != 0)
                findings += [
                    f"{kind} {case}, {moment:.2f} s: {wrong}" for wrong in after_kill(reference, folder, beside)
                ]
            if runs.run(reference.job(folder, resume=True))[0] != 0:
                findings.append(f"{kind} {case}: it does not go on")
            else:
                findings += [f"{kind} {case}: {wrong}" for wrong in at_end(reference, folder)]
            shutil.rmtree(folder)
            case += 1
            if case % 20 == 0:
                say(f"  {kills} kills, of which {landed} came before the end, {len(findings)} findings")
        say(f"  {kills} kills in {case} runs, {landed} before the end of the run")
    finally:
        runs.close()
        shutil.rmtree(place, ignore_errors=True)
    return findings
