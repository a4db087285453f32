"""Owns the benchmark `processing`: how fast one worker process settles events, beside other task queues and a bare loop,
and how long events wait for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from infra.running.embedded import EmbeddedServer
from tests.benchmarks.bare_loop import BareLoop
from tests.benchmarks.ours import Hooklake
from tests.benchmarks.peer import all_peers
from tests.benchmarks.racing import Contender, Fsync, Run, a_server, measure
from tests.benchmarks.rates import Figure, best_of
from tests.benchmarks.rows import Goal, Row
from tests.benchmarks.waiting import Waiting, all_waiting, p99_wait_ms, wait_rows

RATE = "events/s"
WITHIN_S = 600.0
EIGHTFOLD = ("dramatiq", "taskiq-redis", "faststream")
FEW_ENTRIES = 10_000
MANY_PENDING = 100_000
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured."""

    repetitions: int = 3
    scale: float = 1.0
    """Multiplies the number of events of every contender."""
    entries: int = 200_000
    """How many entries the large stream holds; 2,000,000 needs several GB of memory."""


def processing(options: Options, *, peers_python: Path, say: Say) -> list[Row]:
    """Repetitions are interleaved, so that a slow minute of the machine meets every contender."""
    runs: dict[str, list[Run]] = {}
    p99s_ms: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        kept = {label: _kept_server(stack, folder / label) for label in ("few", "many", "pending")}
        for repetition in range(1, options.repetitions + 1):
            for waiting in all_waiting(scale=options.scale):
                p99_ms = _fresh_wait(waiting, folder=folder / f"{waiting.name}-{repetition}")
                p99s_ms.setdefault(waiting.name, []).append(p99_ms)
                say(f"{repetition}/{options.repetitions} processing/{waiting.name}: {p99_ms:,.1f} ms p99")
            for fsync in ("always", "everysec"):
                for contender in _contenders(options, python=peers_python, fsync=fsync):
                    run = _fresh(contender, fsync=fsync, folder=folder / f"{contender.name}-{fsync}-{repetition}")
                    _note(runs, label(contender.name, fsync=fsync), run=run, repetition=repetition, options=options, say=say)
            for what, contender in _depths(options).items():
                run = measure(contender, server=kept[what], folder=folder / what, within_s=WITHIN_S)
                _note(runs, what, run=run, repetition=repetition, options=options, say=say)
    return [*rows_of(runs), *wait_rows(p99s_ms)]


def _contenders(options: Options, *, python: Path, fsync: Fsync) -> Sequence[Contender]:
    peers = all_peers(python, scale=options.scale)
    ours = Hooklake(max(500, round(60_000 * options.scale)))
    return [ours, BareLoop(max(500, round(100_000 * options.scale))), *peers] if fsync == "always" else peers


def _depths(options: Options) -> dict[str, Hooklake]:
    """Our worker over the same number of events, in streams that hold different amounts of others."""
    events = max(500, round(30_000 * options.scale))
    return {
        "few": Hooklake(events, settled_before=FEW_ENTRIES),
        "many": Hooklake(events, settled_before=options.entries),
        "pending": Hooklake(events, settled_before=FEW_ENTRIES, pending_before=MANY_PENDING),
    }


def _kept_server(stack: ExitStack, folder: Path) -> EmbeddedServer:
    folder.mkdir()
    return stack.enter_context(a_server(folder, fsync="always"))


def _fresh(contender: Contender, *, fsync: Fsync, folder: Path) -> Run:
    folder.mkdir()
    with a_server(folder, fsync=fsync) as server:
        return measure(contender, server=server, folder=folder, within_s=WITHIN_S)


def _fresh_wait(waiting: Waiting, *, folder: Path) -> float:
    folder.mkdir()
    with a_server(folder, fsync="always") as server:
        return p99_wait_ms(waiting, server=server, folder=folder, within_s=WITHIN_S)


def _note(runs: dict[str, list[Run]], name: str, *, run: Run, repetition: int, options: Options, say: Say) -> None:
    runs.setdefault(name, []).append(run)
    say(f"{repetition}/{options.repetitions} processing/{name}: {run.events_per_second:,.0f} {RATE}")


def label(name: str, *, fsync: Fsync) -> str:
    return name if fsync == "always" else f"{name}-everysec"


def rows_of(runs: Mapping[str, Sequence[Run]]) -> list[Row]:
    """What the runs say; pure."""
    rates = {name: Figure(tuple(run.events_per_second for run in found)) for name, found in runs.items()}
    ours = rates["hooklake"]
    goals = {"celery": Goal(20), "bare-loop": Goal(1)}
    anchors = [name for name in rates if name not in ("hooklake", "few", "many", "pending")]
    rows = [Row(f"processing/{name}", RATE, ours, rates[name], goals.get(name)) for name in anchors]
    rows.append(Row("processing/best-of-three", RATE, ours, best_of([rates[name] for name in EIGHTFOLD]), Goal(8)))
    return [*rows, *_depth_rows(runs), *_memory_rows(runs["hooklake"])]


def _depth_rows(runs: Mapping[str, Sequence[Run]]) -> list[Row]:
    costs = {what: Figure(tuple(1e6 / run.events_per_second for run in runs[what])) for what in ("few", "many", "pending")}
    flat = Goal(1.2, "at most")
    return [
        Row("processing/many-entries", "µs/event", costs["many"], costs["few"], flat),
        Row("processing/many-pending", "µs/event", costs["pending"], costs["few"], flat),
    ]


def _memory_rows(runs: Sequence[Run]) -> list[Row]:
    last = Figure(tuple(run.resident_bytes / 1e6 for run in runs))
    early = Figure(tuple(run.resident_early_bytes / 1e6 for run in runs))
    return [
        Row("processing/memory", "MB", last, None, Goal(150, "at most")),
        Row("processing/memory-growth", "MB", last, early),
    ]
