"""Owns the benchmark `ingest`: how many requests a second a receiver answers when they are durable, beside one that keeps nothing,
and how long a request takes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.keys import Keys
from ingest.keys import HmacKey
from tests.benchmarks.ours import ROOT, a_client
from tests.benchmarks.processing import Options
from tests.benchmarks.racing import a_server, largest_resident_bytes, processor_seconds
from tests.benchmarks.rates import CannotMeasure, Figure, p99, p999
from tests.benchmarks.receivers import SECRET, Receiving, all_receiving
from tests.benchmarks.rows import Goal, Row
from tests.benchmarks.wrk import body_of, headers_of, load

RATE = "requests/s"
# Short turns, there and back: a machine changes its speed within seconds, and nobody is to have only its good ones.
TURNS = 8
TURN_S = 1.0
WARM_UP_S = 1.0
LONG_S = 8.0
TRICKLE_PER_SECOND = 1_000
TRICKLE_SECONDS = 10.0
HASHED_BODIES = 5_000
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Received:
    """What one contender did in some time."""

    requests: int
    seconds: float
    receiver_s: float
    """Processor time of its processes."""
    server_s: float
    """The same of the log's server."""
    busy_s: float
    """How long that was at work, or waited for its disk, and not for something to do."""

    @classmethod
    def sum_of(cls, turns: Sequence[Received]) -> Received:
        return cls(*map(sum, zip(*map(astuple, turns), strict=True)))

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def receiver_us(self) -> float:
        return self.receiver_s / self.requests * 1e6

    @property
    def server_us(self) -> float:
        return self.server_s / self.requests * 1e6

    @property
    def busy_percent(self) -> float:
        return self.busy_s / self.seconds * 100


@dataclass(slots=True)
class Contest:
    """A contender that runs, with a server of its own."""

    contender: Receiving
    folder: Path
    server: EmbeddedServer
    port: int
    process: subprocess.Popen[bytes]
    answered: int = 0

    def load(self, run: str, *, seconds: float) -> Received:
        before = self._spent_s()
        found = load(self.port, seconds=seconds, secret=SECRET.encode(), run=run, folder=self.folder)
        spent = [after - was for after, was in zip(self._spent_s(), before, strict=True)]
        self.answered += found.requests
        return Received(found.requests, found.duration_us / 1e6, *spent)

    def _spent_s(self) -> tuple[float, float, float]:
        with a_client(self.server, self.folder) as log:
            busy_us: int = log.info("stats")["eventloop_duration_sum"]
        return processor_seconds(self.process.pid), processor_seconds(self.server.pid), busy_us / 1e6

    def check(self) -> None:
        """Raises CannotMeasure where an answer stands for nothing."""
        if self.contender.fills_our_log:
            _refuse_missing(self.server, self.folder, answered=self.answered)


def ingesting(options: Options, *, peers_python: Path, say: Say) -> list[Row]:
    found: dict[str, list[Received]] = {}
    latencies_ms: list[list[float]] = []
    hashing_us: list[float] = []
    long: list[tuple[Received, float]] = []
    for repetition in range(1, options.repetitions + 1):
        long.append(_long_load(scale=options.scale))
        for name, received in _contest(all_receiving(peers_python), scale=options.scale).items():
            found.setdefault(name, []).append(received)
            say(f"{repetition}/{options.repetitions} ingest/{name}: {received.per_second:,.0f} {RATE}")
        hashing_us.append(_hashing_us())
        with _a_fresh_folder("latency") as folder:
            latencies_ms.append(_trickle(scale=options.scale, folder=folder))
        say(f"{repetition}/{options.repetitions} ingest/latency: {p99(latencies_ms[-1]):,.1f} ms p99")
    return [*rows_of(found, long=long, hashing_us=hashing_us), *latency_rows(latencies_ms)]


def _contest(contenders: Sequence[Receiving], *, scale: float) -> dict[str, Received]:
    """Everybody in turn, each time with a fresh server.

    What a turn has filled goes with it, so that the next one finds memory that the machine has used before, as a log does that is trimmed
    about as fast as it grows. A log that only grows is given new memory all the time, and a guest whose host takes back what it does not
    use waits for each page of it.
    """
    turns: dict[str, list[Received]] = {contender.name: [] for contender in contenders}
    for turn in range(TURNS):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            with _started(contender) as contest:
                contest.load("warm-up", seconds=WARM_UP_S * scale)
                turns[contender.name].append(contest.load("turn", seconds=TURN_S * scale))
                contest.check()
    return {name: Received.sum_of(received) for name, received in turns.items()}


def _long_load(*, scale: float) -> tuple[Received, float]:
    """Ours over a longer time, and the memory of its largest process at the end, in MB.

    It comes first, so that nobody in a turn is the first to use some memory of the machine.
    """
    with _started(Receiving("hooklake", ("ingest",))) as contest:
        received = contest.load("long", seconds=LONG_S * scale)
        contest.check()
        return received, largest_resident_bytes(contest.process.pid) / 1e6


@contextmanager
def _started(contender: Receiving) -> Iterator[Contest]:
    with (
        _a_fresh_folder(contender.name) as folder,
        a_server(folder, fsync="always") as server,
        contender.running(server, folder) as (port, process),
    ):
        yield Contest(contender, folder, server, port, process)


@contextmanager
def _a_fresh_folder(name: str) -> Iterator[Path]:
    """It goes with its contender, so that the files of all of them do not fill the machine's memory."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as made:
        yield Path(made)


def _refuse_missing(server: EmbeddedServer, folder: Path, *, answered: int) -> None:
    """Raises CannotMeasure unless every answer stands for an entry of the log."""
    keys, log = Keys(LogSettings().prefix, LogSettings().shards), a_client(server, folder)
    with log:
        entries = sum(log.xlen(name) for shard in keys.all_shards() for name in keys.event_streams(shard))
    if entries < answered:
        raise CannotMeasure(f"{answered} requests were answered with 202, and the log has {entries} entries")


def _hashing_us() -> float:
    """What nobody can do without who checks a signature and knows a body again: two passes of SHA-256, in µs, with nobody beside it."""
    body = body_of()
    key = HmacKey(SECRET.encode(), key_id="bench", algorithm="sha256", encoding="hex")
    signature = headers_of(body, secret=SECRET.encode())["X-Hub-Signature-256"].removeprefix("sha256=").encode()
    begun_s = time.process_time()
    for _ in range(HASHED_BODIES):
        if not key.signed(body, signature):
            raise CannotMeasure("the load is signed with another secret")
        hashlib.sha256(body).hexdigest()
    return (time.process_time() - begun_s) / HASHED_BODIES * 1e6


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


def rows_of(found: Mapping[str, Sequence[Received]], *, long: Sequence[tuple[Received, float]], hashing_us: Sequence[float]) -> list[Row]:
    """What the measurements of throughput say; pure."""
    rates = {name: Figure(tuple(one.per_second for one in measured)) for name, measured in found.items()}
    costs = {name: Figure(tuple(1e6 / one.per_second for one in measured)) for name, measured in found.items()}
    ours, growing = rates["hooklake"], Figure(tuple(received.per_second for received, _ in long))
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
        Row("ingest/growing", RATE, growing, ours),
        Row("ingest/receiver-time", "µs/request", receiver_us["hooklake"], receiver_us["starlette"]),
        Row("ingest/hashing-time", "µs/request", Figure(tuple(hashing_us)), receiver_us["hooklake"]),
        Row("ingest/server-time", "µs/request", server_us["hooklake"], server_us["least-durable"]),
        Row("ingest/server-busy", "%", Figure(tuple(one.busy_percent for one in found["hooklake"]))),
        Row("ingest/memory", "MB", Figure(tuple(resident_mb for _, resident_mb in long)), None, Goal(150, "at most")),
    ]


def latency_rows(latencies_ms: Sequence[Sequence[float]]) -> list[Row]:
    """Of requests at a steady rate; pure."""
    return [
        Row("ingest/latency-p99", "ms", Figure(tuple(map(p99, latencies_ms))), None, Goal(25, "at most")),
        Row("ingest/latency-p99.9", "ms", Figure(tuple(map(p999, latencies_ms)))),
    ]
