"""Owns the fault rows: what each is called, and what a run of their tests says about them.

A test that survives a fault is marked `@pytest.mark.fault("D5")`; the test that runs the same fault on a service without the
protection, and asserts that it does harm there, is marked `@pytest.mark.control("D5")`.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import asdict, dataclass, field

import pytest

ROWS = {
    "A1": "kill -9 of a receiver that has not yet sent its append",
    "A2": "kill -9 of a receiver between its append and the log's reply",
    "A3": "kill -9 of a receiver, or of a log that hung, before the sender is answered",
    "A4": "kill -9 of a receiver or of the log's server between the parts of one body",
    "A5": "the sender goes away in the middle of a body",
    "A6": "many connections whose requests never end",
    "A7": "the same delivery many times at once",
    "A8": "the same delivery id with another body",
    "A9": "receivers are replaced one by one under load",
    "A10": "a receiver hangs for some seconds",
    "A11": "the receiver may open no more files",
    "A12": "the receiver's clock is wrong, and is set forward and back",
    "A13": "kill -9 of a receiver that empties its spool",
    "B1": "kill -9 of the log's server under load",
    "B2": "a power cut of the log's disk, and of the spool's",
    "B3": "a byte of the log's file is flipped, or of the spool's",
    "B4": "the log's server hangs",
    "B5": "the log's disk is slow",
    "B6": "the connection is reset after an append was sent",
    "B7": "a reply is cut in the middle of a frame",
    "B8": "the log's memory is full",
    "B9": "the log deletes what it was given when its memory is full",
    "B10": "the log's disk is full, or the spool's",
    "B11": "the log's disk fails to sync, or the spool's",
    "B12": "the log answers LOADING, READONLY, BUSY, MASTERDOWN, NOREPLICAS, CLUSTERDOWN, TRYAGAIN, MOVED or ASK",
    "B13": "the receiver's rights on the log are taken away, and given back",
    "B14": "the log forgets its scripts",
    "B15": "a body above the cap",
    "C1": "kill -9 of the primary under load, replaced by sentinels or by its cluster",
    "C2": "the link between primary and replica is cut, and then the primary dies",
    "C3": "a primary is cut off from its cluster together with its client",
    "C4": "an old primary returns and becomes a replica: what only it had is gone",
    "C5": "a replica takes over that lacks the last deliveries and acks",
    "C6": "a replica takes over that lacks a group",
    "C7": "a slot of the cluster moves to another node",
    "C8": "the cluster loses the majority of its nodes",
    "C9": "a replica takes over whose clock is behind",
    "C10": "a replica is sent everything anew, by a primary whose memory is full or that dies meanwhile",
    "D1": "kill -9 of a worker that has read and not yet run",
    "D2": "kill -9 of a worker under load",
    "D3": "kill -9 of a worker or of the log's server around the settling of retries",
    "D4": "a processor slower than its lease",
    "D5": "a worker that hung for longer than its lease, and wakes up",
    "D6": "a processor that crashes, exits, is killed, loops, overstays, or wants more memory or stack than there is",
    "D7": "every attempt fails: an outage downstream",
    "D8": "many promote what is due at once; the worker's clock jumps",
    "D9": "names of consumers pile up",
    "D10": "the log is flushed, a stream deleted, a group destroyed",
    "D11": "a key of the log is replaced by a string",
    "D12": "a stream is trimmed beneath a group",
    "D13": "a dead letter is requeued twice, or its worker or whoever requeues it is killed at each step",
    "D15": "workers of two releases run together, and a step back",
    "D16": "the settings change while events are in work",
    "D14": "dead letters pile up",
    "E1": "kill -9 of the archive, between its steps and under load",
    "E2": "kill -9 of what reads for the archive: a Python process, an executor",
    "E3": "a power cut of the tables' disk, from the commit on",
    "E4": "a power cut of the tables' disk and of the log's at once",
    "E5": "a batch that was committed is tried again, with more rows",
    "E6": "the newest entries of a table's log are cut off, deleted, or replaced by an older copy",
    "E7": "two archives on one log",
    "E9": "a table is restored to an older version beneath the archive",
    "E10": "a commit is made and its answer lost",
    "E11": "the tables' disk is full, or the one that Spark shuffles on",
    "E12": "a backlog after a long rest of the archive",
    "E13": "the log hangs, dies, fails over or is trimmed in the middle of a batch",
    "E14": "bodies made to break a batch",
    "E15": "names and clocks made to break the tables' layout",
    "E17": "Spark's JVM is out of memory, or hangs",
    "E18": "the driver's clock goes back by an hour",
    "E8": "the tables are compacted and vacuumed beside ingest",
    "E16": "thousands of small batches",
    "E19": "a byte of a table's file is flipped: of data, of a log entry, of a checkpoint",
    "F2": "an operator erases a tenant, while its events are in work everywhere",
    "E20": "kill -9 of the archive in the middle of a refresh of a gold table",
    "HOSTILE": "thousands of requests made to break the receiver, over raw sockets",
    "QUARANTINE": "a flood of forged requests; a refused request is released twice, or discarded meanwhile, or its release dies half-way",
    "SCALE": "the archive's executors are processes of their own, or those of a standalone cluster",
    "REPLAY": "kill -9 of a replay, or of the archive that gives back what is owed, at each step; the log dies meanwhile",
    "I4": "an event is delivered again, or its worker has lost it",
    "I9": "kill -9 of a worker of a group that keeps order per key",
}


def rows_called(text: str) -> list[str]:
    """The rows that `D5`, `D5,E1` or a whole group (`C,D`) means, all of them for nothing; raises KeyError for what is no row."""
    found: list[str] = []
    for name in filter(None, text.split(",")):
        meant = [row for row in ROWS if row == name or (name.isalpha() and row.rstrip("0123456789") == name)]
        if not meant:
            raise KeyError(name)
        found += meant
    return found or list(ROWS)


@dataclass(slots=True)
class Outcome:
    """One row after a run; `control_red` is None for a row that has no control yet, or whose control was not run.

    What was skipped says nothing about a row, and is kept by its reason with how many tests it kept from running.
    """

    row: str
    what: str
    seed: int
    tests: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    controls: int = 0
    green_controls: list[str] = field(default_factory=list)
    skipped_controls: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.tests > 0 and not self.failed

    @property
    def control_red(self) -> bool | None:
        return not self.green_controls if self.controls else None

    @property
    def lacks_its_control(self) -> bool:
        """Whether it has one that could not be run, so that nobody has seen its tests fail."""
        return not self.controls and bool(self.skipped_controls)

    def as_dict(self) -> dict[str, object]:
        facts = asdict(self)
        return {"row": self.row, "seed": self.seed, "passed": self.passed, "control_red": self.control_red, **facts}


class RowsPlugin:
    """Collects outcomes of the chosen rows while pytest runs; deselects every test of other rows, and every test of none."""

    def __init__(self, *, only: Collection[str], seed: int) -> None:
        # All of them from the beginning: a row of which nothing runs must not be missing in the end.
        self.outcomes = {row: Outcome(row, ROWS[row], seed) for row in only}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if self._of(item, "fault") or self._of(item, "control")]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped:
            self._note_skipped(item, why=reason_of(report))
        elif report.when == "call" or report.failed:
            self._note(item, has_passed=report.passed)
        return report

    def _note(self, item: pytest.Item, *, has_passed: bool) -> None:
        for outcome in self._of(item, "fault"):
            outcome.tests += 1
            outcome.failed += [] if has_passed else [item.nodeid]
        for outcome in self._of(item, "control"):
            outcome.controls += 1
            outcome.green_controls += [] if has_passed else [item.nodeid]

    def _note_skipped(self, item: pytest.Item, *, why: str) -> None:
        for outcome in self._of(item, "fault"):
            outcome.skipped[why] = outcome.skipped.get(why, 0) + 1
        for outcome in self._of(item, "control"):
            outcome.skipped_controls[why] = outcome.skipped_controls.get(why, 0) + 1

    def _of(self, item: pytest.Item, marker: str) -> list[Outcome]:
        return [self.outcomes[row] for row in rows_of(item, marker) if row in self.outcomes]


def reason_of(report: pytest.TestReport) -> str:
    """Why a test was skipped, in its own words."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def rows_of(item: pytest.Item, marker: str) -> list[str]:
    return [row for mark in item.iter_markers(marker) for row in mark.args]
