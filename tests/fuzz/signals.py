"""Ctrl-C at random moments of ``sparsenam fit``, from the first instruction of its process to the last.

It ends in one sentence and exit code 130, or well where it came too late. No trace is printed, nothing partial is left,
and the same command with --resume goes on to the bits of a run that nobody stopped.
"""

import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np

from fuzz.kills import LATEST, Reference, Runs, after_kill, at_end, table, words

KINDS = ("command", "command", "loading")
FIRST = 0.1  # seconds in which Python itself starts, before the first instruction of the command


def after_stop(code, said, folder):
    """Return what is wrong with the end of a process that was stopped."""
    lines = [line for line in said.splitlines() if "warning" not in line]
    found = []
    if "Traceback" in said or "Exception ignored" in said:
        found.append(f"a trace: {said[-300:]!r}")
    elif code not in (0, 130):
        found.append(f"exit code {code}")
    elif len([line for line in lines if line.startswith("Stopped")]) != (code == 130):
        found.append(f"exit code {code}, and said {said!r}")
    if folder.is_dir() and any(file.name.endswith(".part") for file in folder.iterdir()):
        found.append("it left parts of files")
    return found


def attack(seed, count, say):
    """Stop so many runs; return what did not hold."""
    random, findings, stopped = np.random.default_rng(seed), [], 0
    place, runs, references = Path(tempfile.mkdtemp(prefix="signals")), Runs(), {}
    try:
        path, older = table(place), place / "older"
        assert runs.run({"fit": words(path, older, 1)})[0] == 0
        for case in range(count):
            kind = KINDS[case % len(KINDS)]
            loading, folder, log = kind == "loading", place / f"case{case}", place / "log"
            if kind not in references:
                references[kind] = Reference(runs, kind, path, place / kind)
            reference, beside = references[kind], older if random.random() < 0.5 else None
            shutil.copytree(beside, folder) if beside is not None else folder.mkdir()
            moment = float(random.uniform(FIRST if loading else 0.0, LATEST * reference.seconds))
            log.unlink(missing_ok=True)
            job = reference.job(folder, resume=False)
            code, _ = runs.run(job, moment, loading=loading, number=signal.SIGINT, log=log)
            stopped += code == 130
            wrongs = after_stop(code, log.read_text(), folder)
            if not reference.metrics(folder).get("preliminary", False):
                wrongs += after_kill(reference, folder, beside)
            if runs.run(reference.job(folder, resume=True))[0] != 0:
                wrongs.append("it does not go on")
            else:
                wrongs += at_end(reference, folder)
            findings += [f"{kind} {case}, {moment:.2f} s: {wrong}" for wrong in wrongs]
            shutil.rmtree(folder)
        say(f"  {count} runs, {stopped} of them stopped before their end")
    finally:
        runs.close()
        shutil.rmtree(place, ignore_errors=True)
    return findings
