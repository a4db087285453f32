"""Owns the benchmark `ingest`: how many requests a second a receiver answers when they are durable, beside one that keeps nothing,
and how long a request takes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.benchmarks.ours import ROOT, a_client
from tests.benchmarks.processing import Options
from tests.benchmarks.racing import a_server, largest_resident_bytes, processor_seconds
from tests.benchmarks.rates import CannotMeasure, Figure, p99, p999
from tests.benchmarks.receivers import SECRET, Receiving, all_receiving
from tests.benchmarks.rows import Goal, Row
from tests.benchmarks.wrk import load

RATE = "requests/s"
SECONDS = 6.0
WARM_UP_S = 2.0
TRICKLE_PER_SECOND = 1_000
TRICKLE_SECONDS = 10.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Received:
    """What one measurement found."""

    per_second: float
    resident_bytes: int
    """Of the largest process of the contender, at the end of the load."""
    receiver_us: float
    """Processor time of its processes, by request."""
    server_us: float
    """The same of the log's server."""


def ingesting(options: Options, *, peers_python: Path, say: Say) -> list[Row]:
    """Repetitions are interleaved, so that a slow minute of the machine meets every contender."""
    found: dict[str, list[Received]] = {}
    latencies_ms: list[list[float]] = []
    for repetition in range(1, options.repetitions + 1):
        for contender in all_receiving(peers_python):
            with _a_fresh_folder(contender.name) as folder:
                received = _load(contender, scale=options.scale, folder=folder)
            found.setdefault(contender.name, []).append(received)
            say(f"{repetition}/{options.repetitions} ingest/{contender.name}: {received.per_second:,.0f} {RATE}")
        with _a_fresh_folder("latency") as folder:
            latencies_ms.append(_trickle(scale=options.scale, folder=folder))
        say(f"{repetition}/{options.repetitions} ingest/latency: {p99(latencies_ms[-1]):,.1f} ms p99")
    return [*rows_of(found), *latency_rows(latencies_ms)]


@contextmanager
def _a_fresh_folder(name: str) -> Iterator[Path]:
    """It goes with its contender, so that the files of all of them do not fill the machine's memory."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as made:
        yield Path(made)


def _load(contender: Receiving, *, scale: float, folder: Path) -> Received:
    with a_server(folder, fsync="always") as server, contender.running(server, folder) as (port, process):
        warm = load(port, seconds=WARM_UP_S * scale, secret=SECRET.encode(), run="warm-up", folder=folder)
        before = processor_seconds(process.pid), processor_seconds(server.pid)
        measured = load(port, seconds=SECONDS * scale, secret=SECRET.encode(), run=contender.name, folder=folder)
        after = processor_seconds(process.pid), processor_seconds(server.pid)
        receiver_us, server_us = ((later - earlier) / measured.requests * 1e6 for earlier, later in zip(before, after, strict=True))
        resident_bytes = largest_resident_bytes(process.pid)
        if contender.fills_our_log:
            _refuse_missing(server, folder, answered=warm.requests + measured.requests)
        return Received(measured.per_second, resident_bytes, receiver_us, server_us)


def _refuse_missing(server: EmbeddedServer, folder: Path, *, answered: int) -> None:
    """Raises CannotMeasure unless every answer stands for an entry of the log."""
    keys, log = Keys(LogSettings().prefix, LogSettings().shards), a_client(server, folder)
    with log:
        entries = sum(log.xlen(name) for shard in keys.all_shards() for name in keys.event_streams(shard))
    if entries < answered:
        raise CannotMeasure(f"{answered} requests were answered with 202, and the log has {entries} entries")


def _trickle(*, scale: float, folder: Path) -> list[float]:
    """Latencies in ms at a steady rate; raises CannotMeasure."""
    seconds = max(2.0, TRICKLE_SECONDS * scale)
    with a_server(folder, fsync="always") as server, Receiving("latency", ("ingest",)).running(server, folder) as (port, _):
        arguments = [str(port), SECRET, str(TRICKLE_PER_SECOND), str(seconds)]
        command = [sys.executable, "-m", "tests.benchmarks.post_trickle", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode != 0:
        raise CannotMeasure(f"requests by a timetable failed: {done.stderr.strip()[-500:]}")
    return list(json.loads(done.stdout))


def rows_of(found: Mapping[str, Sequence[Received]]) -> list[Row]:
    """What the measurements of throughput say; pure."""
    rates = {name: Figure(tuple(one.per_second for one in measured)) for name, measured in found.items()}
    costs = {name: Figure(tuple(1e6 / one.per_second for one in measured)) for name, measured in found.items()}
    resident = Figure(tuple(one.resident_bytes / 1e6 for one in found["hooklake"]))
    ours = rates["hooklake"]
    receiver_us = {name: Figure(tuple(one.receiver_us for one in found[name])) for name in ("hooklake", "starlette")}
    server_us = {name: Figure(tuple(one.server_us for one in found[name])) for name in ("hooklake", "least-durable")}
    return [
        Row("ingest/starlette", RATE, ours, rates["starlette"], Goal(0.6)),
        Row("ingest/least-durable", RATE, ours, rates["least-durable"]),
        Row("ingest/least-durable-starlette", RATE, rates["least-durable"], rates["starlette"]),
        Row("ingest/flat", RATE, ours, rates["flat"]),
        Row("ingest/flat-starlette", RATE, rates["flat"], rates["starlette"]),
        Row("ingest/fastapi-celery", RATE, ours, rates["fastapi-celery"], Goal(4)),
        Row("ingest/two-receivers", RATE, rates["two-receivers"], ours),
        Row("ingest/many-sources", "µs/request", costs["many-sources"], costs["hooklake"], Goal(1.2, "at most")),
        Row("ingest/spool", RATE, rates["spool"], ours, Goal(0.5)),
        Row("ingest/receiver-time", "µs/request", receiver_us["hooklake"], receiver_us["starlette"]),
        Row("ingest/server-time", "µs/request", server_us["hooklake"], server_us["least-durable"]),
        Row("ingest/memory", "MB", resident, None, Goal(150, "at most")),
    ]


def latency_rows(latencies_ms: Sequence[Sequence[float]]) -> list[Row]:
    """Of requests at a steady rate; pure."""
    return [
        Row("ingest/latency-p99", "ms", Figure(tuple(map(p99, latencies_ms))), None, Goal(25, "at most")),
        Row("ingest/latency-p99.9", "ms", Figure(tuple(map(p999, latencies_ms)))),
    ]
