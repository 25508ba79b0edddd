"""Running what is not there yet, record by record; one that fails is noted and stops no other."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sparsenam.paper.facts import machine, versions
from sparsenam.paper.reporter import Reporter
from sparsenam.paper.store import Key, Record, Store
from sparsenam.paper.time_limit import limited_to

Job = Callable[[], Mapping[str, object]]
MOST_WARNINGS = 5


def whatever(record: Record) -> bool:
    """Find every record sufficient."""
    return True


@dataclass(frozen=True, slots=True)
class Work:
    """A record to be made.

    ``ready`` gets the data and returns the job: what goes wrong with the data concerns every method and ends the
    run, what goes wrong in the job concerns this record only. ``enough`` tells whether an earlier record will do.
    """

    section: str
    method: str
    seed: int
    recipe: str
    ready: Callable[[], Job]
    enough: Callable[[Record], bool] = whatever

    @property
    def key(self) -> Key:
        """Section, method and seed."""
        return self.section, self.method, self.seed

    @property
    def label(self) -> str:
        """The key in words."""
        return f"{self.section} {self.method}, seed {self.seed}".strip()


def run_all(
    works: Sequence[Work],
    store: Store,
    reporter: Reporter,
    current: Mapping[tuple[str, str], str],
    time_limit: float | None = None,
    *,
    retry: bool = False,
) -> None:
    """Make the records that are missing; ``current`` has the recipe of every method there may be.

    A record that failed for want of a package, of memory or of a file is made again; any other that failed, by
    divergence or by the time limit say, only with ``retry``.
    """
    outdated = store.drop_outdated(current)
    if outdated:
        reporter.tell(f"The recipe has changed for {', '.join(outdated)}: their old records are dropped.")
    pending = [work for work in works if not store.has(work.key, work.enough, retry=retry)]
    store.write()
    reporter.begin(store.path.stem, len(works) - len(pending), len(works))
    left = store.failed({work.key for work in works} - {work.key for work in pending})
    if left:
        reporter.tell(f"{left} of these failed and would fail again: --retry makes them all the same.")
    for work in pending:
        reporter.start(work.label)
        job = work.ready()
        record = attempt(work, job, time_limit)
        store.put(record)
        reporter.finish(record)


def attempt(work: Work, job: Job, time_limit: float | None = None) -> Record:
    """Return the job's record, or a record of why there is none."""
    record: dict[str, object] = {"section": work.section, "method": work.method, "seed": work.seed}
    record["recipe"] = work.recipe
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            with limited_to(time_limit):
                outcome = job()
            json.dumps(outcome, allow_nan=False)  # numbers that are not finite are no result
            record |= {"status": "done", **outcome}
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            record |= {"status": "failed", "reason": reason or type(error).__name__, "error": type(error).__name__}
    record["wall_seconds"] = time.perf_counter() - started
    messages = dict.fromkeys(str(warning.message).splitlines()[0] for warning in heard if str(warning.message))
    record["warnings"] = list(messages)[:MOST_WARNINGS]
    record |= {"date": datetime.now(UTC).date().isoformat(), "versions": versions(), "machine": machine()}
    return record
