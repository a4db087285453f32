"""Owns how soon an event can be queried: a whole `hooklake up`, requests by a timetable, and a look at the table's log."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from infra.running.healthcheck import answers_ok
from tests.benchmarks.ours import ROOT
from tests.benchmarks.racing import LOOK_EVERY_S
from tests.benchmarks.rates import CannotMeasure
from tests.end_to_end.installation import Installation

PER_SECOND = 200
SECONDS = 30.0
BODY_BYTES = 1_700
ARCHIVED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Fresh:
    """What one installation showed."""

    ready_s: float
    """From `up` until the archive says that it is ready."""
    waits_s: list[float]
    """Of each event, from when the receiver had it until a commit of the table had its row."""


def measure_freshness(folder: Path, *, scale: float) -> Fresh:
    """Everything that `up` starts runs: log, receiver, worker, archive. Raises CannotMeasure."""
    installation = Installation(folder / "home", ARCHIVE__WARM_UP="true")  # as it is unless somebody says otherwise
    try:
        began = time.monotonic()
        installation.start()
        archive_port = int(installation.environment["HOOKLAKE_ARCHIVE__OPS_PORT"])
        installation.until(lambda: answers_ok(archive_port), "the archive is ready")
        ready_s = time.monotonic() - began
        return Fresh(ready_s, _waits(installation, seconds=max(5.0, SECONDS * scale)))
    except AssertionError as error:
        raise CannotMeasure(f"the installation did not run: {error}") from error
    finally:
        installation.stop()


def _waits(installation: Installation, *, seconds: float) -> list[float]:
    secret = (installation.home / "secrets" / "demo-github").read_text().strip()
    arguments = [str(installation.port), secret, str(PER_SECOND), str(seconds), "/hooks/demo/github", str(BODY_BYTES)]
    table = installation.home / "lake" / "events"
    earlier = set(_versions(table))
    posting = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.post_trickle", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        seen = _look_on(table, posting=posting, installation=installation)
        _, said = posting.communicate(timeout=60)
    finally:
        posting.kill()
        posting.wait()
    if posting.returncode != 0:
        raise CannotMeasure(f"requests by a timetable failed: {said.decode(errors='replace').strip()[-500:]}")
    waits = sorted(pair for path, at in seen.items() if path not in earlier for pair in _waits_of(table, path, seen_at=at))
    # The first second finds the receiver's connections cold, as everywhere in these benchmarks.
    return [wait for received, wait in waits if received >= waits[0][0] + 1]


def _look_on(table: Path, *, posting: subprocess.Popen[bytes], installation: Installation) -> dict[Path, float]:
    """When each version of the table could first be seen, until everything that was posted is archived."""
    seen: dict[Path, float] = {}
    deadline = None
    while deadline is None or not installation.has_archived():
        for path in _versions(table):
            seen.setdefault(path, time.time())
        if deadline is None and posting.poll() is not None:
            deadline = time.monotonic() + ARCHIVED_WITHIN_S
        if deadline is not None and time.monotonic() > deadline:
            raise CannotMeasure(f"what was posted was not archived within {ARCHIVED_WITHIN_S:g} s")
        time.sleep(LOOK_EVERY_S)
    for path in _versions(table):
        seen.setdefault(path, time.time())
    return seen


def _versions(table: Path) -> Iterator[Path]:
    return (table / "_delta_log").glob("[0-9]*.json")


def _waits_of(table: Path, version: Path, *, seen_at: float) -> Iterator[tuple[float, float]]:
    """When each row that this version brought was received, and how long it took from then until the version was seen."""
    for action in map(json.loads, version.read_text().splitlines()):
        if action.get("add", {}).get("dataChange"):
            for received in _received(table / unquote(action["add"]["path"])):
                yield received, seen_at - received


def _received(path: Path) -> list[float]:
    # Opened alone, since by its path it would be a part of a dataset, whose partition column the file does not have.
    with path.open("rb") as file:
        rows: list[dict[str, Any]] = pq.ParquetFile(file).read(["received_at"]).to_pylist()
    return [row["received_at"].replace(tzinfo=row["received_at"].tzinfo or UTC).timestamp() for row in rows]
