"""Owns the benchmark `archive`: how fast a backlog becomes rows, beside Spark that writes the same rows from Parquet; whether that
stays so while the table grows; and how soon an event can be queried."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from infra.settings import LogSettings
from tests.benchmarks.backlog import BODY_BYTES, put_backlog
from tests.benchmarks.draining import Draining, without_variant
from tests.benchmarks.freshness import Fresh, measure_freshness
from tests.benchmarks.ours import a_client
from tests.benchmarks.processing import Options
from tests.benchmarks.racing import a_server
from tests.benchmarks.rates import Figure, Observation, events_per_second, p95, seconds_per_event
from tests.benchmarks.receivers import SECRET, Receiving
from tests.benchmarks.replaying import a_replays_session, keep_rows, replay_all
from tests.benchmarks.rows import Goal, Row
from tests.benchmarks.wrk import load

RATE = "rows/s"
ENTRIES = 200_000
LARGE_BACKLOG = 2_000_000
FEW_ROWS = 10_000
LOAD_SECONDS = 6.0
Say = Callable[[str], None]


def archiving(options: Options, *, say: Say) -> list[Row]:
    """Freshness first, while nothing else of ours has run; the large backlog once, since it takes minutes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        fresh = _freshness(options, folder=_made(Path(name) / "fresh"), say=say)
        with ExitStack() as stack:
            draining = Draining(stack, folder=_made(Path(name) / "replaying"), opens=a_replays_session)
            replayed = _replays(draining, options, folder=_made(Path(name) / "replays"), say=say)
        with ExitStack() as stack:
            draining = Draining(stack, folder=_made(Path(name) / "spark"))
            found = _drains(draining, options, folder=_made(Path(name) / "drains"), say=say)
            large = _large_backlog(draining, options, folder=_made(Path(name) / "large"), say=say)
    return [*drain_rows(found), *replay_rows(replayed), *large_rows(large), *fresh_rows(fresh)]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _freshness(options: Options, *, folder: Path, say: Say) -> list[Fresh]:
    found = []
    for repetition in range(1, options.repetitions + 1):
        found.append(measure_freshness(_made(folder / str(repetition)), scale=options.scale))
        waits = f"{p95(found[-1].waits_s):.1f} s p95, ready after {found[-1].ready_s:.1f} s"
        say(f"{repetition}/{options.repetitions} archive/freshness: {waits}")
    return found


def _drains(draining: Draining, options: Options, *, folder: Path, say: Say) -> dict[str, list[float]]:
    """Events a second of each contender. Everybody once without being timed, so that the code is compiled; then in turn."""
    entries, found = max(5_000, round(ENTRIES * options.scale)), dict[str, list[float]]()
    with a_server(folder, fsync="always") as server:
        with a_client(server, folder) as client:
            put_backlog(client, count=entries, is_kept=True)
        log = LogSettings(url=server.url)
        raw = draining.keep_raw(log)
        for repetition in range(options.repetitions + 1):
            for what, measure in _contenders(draining, log=log, raw=raw, entries=entries).items():
                os.sync()  # What the one before has left to be written is not the next one's cost.
                seen = measure()
                draining.remove_tables(besides=raw)
                _note(found, what, events_per_second(seen[0], seen[-1]), repetition=repetition, options=options, say=say)
            os.sync()
            rate = _ingest(folder / f"ingest-{repetition}", scale=options.scale)
            _note(found, "ingest", rate, repetition=repetition, options=options, say=say)
    return found


def _replays(draining: Draining, options: Options, *, folder: Path, say: Say) -> dict[str, list[float]]:
    """Events a second, in a Spark that does nothing else; once without being timed."""
    entries, found = max(5_000, round(ENTRIES * options.scale)), dict[str, list[float]]()
    with a_server(folder, fsync="always") as server:
        with a_client(server, folder) as client:
            put_backlog(client, count=entries, is_kept=True)
        raw = draining.keep_raw(LogSettings(url=server.url))
    table = keep_rows(draining.spark, raw=raw, to=folder / "replayed")
    for repetition in range(options.repetitions + 1):
        os.sync()
        rate = replay_all(draining.spark, table=table, folder=_made(folder / f"replay-{repetition}"))
        _note(found, "replay", rate, repetition=repetition, options=options, say=say)
    return found


def _note(found: dict[str, list[float]], what: str, rate: float, *, repetition: int, options: Options, say: Say) -> None:
    """What was run for the first time only made the machine warm."""
    if repetition:
        found.setdefault(what, []).append(rate)
        say(f"{repetition}/{options.repetitions} archive/{what}: {rate:,.0f} {RATE if what != 'ingest' else 'requests/s'}")


def _contenders(draining: Draining, *, log: LogSettings, raw: Path, entries: int) -> dict[str, Callable[[], list[Observation]]]:
    """In the order of a repetition: each beside what it is compared with."""
    return {
        "drain": lambda: draining.drain(log, entries=entries),
        "parquet": lambda: draining.write(raw, entries=entries),
        "bare-drain": lambda: draining.drain(log, entries=entries, transform=without_variant),
        "bare-parquet": lambda: draining.write(raw, entries=entries, transform=without_variant),
    }


def _ingest(folder: Path, *, scale: float) -> float:
    """Requests a second that one receiver answers, with bodies of the same size."""
    folder.mkdir()
    with a_server(folder, fsync="always") as server, Receiving("hooklake", ("ingest",)).running(server, folder) as (port, _):
        load(port, seconds=1, secret=SECRET.encode(), run="warm-up", folder=folder, body_bytes=BODY_BYTES)
        seconds = max(1.0, LOAD_SECONDS * scale)
        return load(port, seconds=seconds, secret=SECRET.encode(), run="load", folder=folder, body_bytes=BODY_BYTES).per_second


@dataclass(frozen=True, slots=True)
class Large:
    """What draining the large backlog showed."""

    seen: list[Observation]
    heap_bytes: int

    def seconds_per_row(self) -> tuple[float, float]:
        """Of the last tenth of the table, and of as many rows after its first few."""
        total = self.seen[-1].done
        few, share = min(FEW_ROWS, total // 10), total // 10
        last = seconds_per_event(self.seen, low=total - share, high=total)
        return last, seconds_per_event(self.seen, low=few, high=few + share)


def _large_backlog(draining: Draining, options: Options, *, folder: Path, say: Say) -> Large:
    entries = max(50_000, round(LARGE_BACKLOG * options.scale))
    with a_server(folder, fsync="always") as server:
        with a_client(server, folder) as client:
            put_backlog(client, count=entries)
        draining.forget_peak()
        seen = draining.drain(LogSettings(url=server.url), entries=entries)
    large = Large(seen, draining.peak_heap_bytes())
    draining.remove_tables()
    rate = events_per_second(seen[0], seen[-1])
    say(f"archive/large-backlog: {rate:,.0f} {RATE} over {entries:,} entries, {large.heap_bytes / 1e6:,.0f} MB of heap")
    return large


def drain_rows(found: Mapping[str, Sequence[float]]) -> list[Row]:
    """What the drains say; pure."""
    rates = {what: Figure(tuple(samples)) for what, samples in found.items()}
    return [
        Row("archive/drain", RATE, rates["drain"], rates["parquet"], Goal(0.65)),
        Row("archive/drain-without-variant", RATE, rates["bare-drain"], rates["bare-parquet"], Goal(0.5)),
        Row("archive/catch-up", "events/s", rates["drain"], rates["ingest"], Goal(3)),
    ]


def replay_rows(found: Mapping[str, Sequence[float]]) -> list[Row]:
    """What the replays say; pure."""
    return [Row("archive/replay", "events/s", Figure(tuple(found["replay"])), None, Goal(20_000))]


def large_rows(large: Large) -> list[Row]:
    """What the large backlog says; pure."""
    last, first = large.seconds_per_row()
    return [
        Row("archive/many-rows", "µs/row", Figure((1e6 * last,)), Figure((1e6 * first,)), Goal(1.2, "at most")),
        Row("archive/heap", "MB", Figure((large.heap_bytes / 1e6,)), None, Goal(2000, "at most")),
    ]


def fresh_rows(found: Sequence[Fresh]) -> list[Row]:
    """What the installations say; pure."""
    return [
        Row("archive/queryable-p95", "s", Figure(tuple(p95(one.waits_s) for one in found)), None, Goal(6, "at most")),
        Row("archive/ready", "s", Figure(tuple(one.ready_s for one in found)), None, Goal(25, "at most")),
    ]
