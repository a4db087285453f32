"""Owns tests of a user's processors: a real log server, a real worker, and time that moves only when the test says so.

    async with processing(index) as lake:
        await lake.send("github.push", payload=b"{}")
        await lake.run_until_idle()
        assert lake.dead_letters == []

Works under any test runner, and under none.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import orjson

from infra.clock import Clock, EventIds
from infra.running.embedded import EmbeddedServer, free_port
from infra.settings import LogSettings, TelemetrySettings, validate
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.dead_letters import DeadLetters
from infra.streams.delayed import bring_forward, count_waiting, promote_due
from infra.streams.entries import further_fields, values_of
from infra.streams.housekeeping import Housekeeping
from infra.streams.keys import Keys
from infra.streams.lag import oldest_undelivered_ms, read_lag
from infra.streams.once import OnceReader
from infra.streams.replay import Limits, Progress, Replayed, ReplayStream, packed
from infra.streams.replays import Replays
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from processors.recording import Run, recorded
from processors.registry import ATTRIBUTE, ProcessorSpec, Registry, specs_called, specs_in
from processors.settings import GroupSettings
from processors.upkeep import Upkeep
from processors.worker import Worker
from schemas.dead_letter import DeadLetter
from schemas.errors import ConfigError
from schemas.event import AuthContext, StreamEvent, is_name

LOOK_EVERY_S = 0.005
QUICK: dict[str, Any] = {"block_ms": 20, "circuit_failures": 0}
"""Settings of the group that make a worker start and stop at once, and never wait by a clock that `advance` does not move; a test
may say otherwise."""

Processors = Callable[..., Any] | ModuleType | ProcessorSpec | str


class Lake:
    """A log of its own and one group on it, in the hands of a test."""

    def __init__(
        self, specs: Iterable[ProcessorSpec], *, group: str, settings: GroupSettings, log: LogSettings, home: Path, telemetry: Telemetry
    ) -> None:
        self.runs: list[Run] = []
        """All attempts, in the order in which they ended."""
        self._registry = Registry(recorded(spec, runs=self.runs) for spec in specs)
        self._group = group
        self._settings = settings
        self._log = log
        self._home = home
        self._telemetry = telemetry
        self._keys = Keys(log.prefix, log.shards)
        self._stream = EventStream.open(log, home=home)
        self._acts = open_pipeline(log, home=home)
        self._once: OnceReader | None = None
        self._clock = Clock()
        self._ids = EventIds(self._clock)

    async def send(self, event_type: str, *, payload: bytes | dict[str, Any] = b"{}", **fields: Any) -> StreamEvent:
        """Appends an event as a receiver would and returns it; `fields` are those of StreamEvent, a dict becomes JSON."""
        body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
        event_id = self._ids.mint()
        source = event_type.partition(".")[0]
        defaults: dict[str, Any] = {
            "id": event_id,
            "tenant_id": "test",
            "source": source if is_name(source) else "test",
            "event_type": event_type,
            "delivery_id": f"delivery-{event_id}",
            "timestamp": self._clock.now(),
            "payload": body,
            "body_sha256": hashlib.sha256(body).hexdigest(),
            "content_type": "application/json",
            "auth_context": AuthContext(scheme="test", verified_at=self._clock.now()),
        }
        event = StreamEvent(**{**defaults, **fields})
        await self._stream.append(event)
        return event

    async def replay(self, event: StreamEvent) -> str:
        """Hands an event to the group as a replay from the archive does; returns the replay's id."""
        await groups.declare(self._acts, keys=self._keys, group=self._group)
        return await asyncio.to_thread(self._replay, event)

    def _replay(self, event: StreamEvent) -> str:
        with closing(Replays.open(self._log, home=self._home)) as replays:
            replay = replays.begin(self._group, about={}).id
        opened = ReplayStream.open(self._log, home=self._home, group=self._group, replay=replay, limits=Limits())
        with closing(opened) as stream:
            replayed = Replayed("1", "0-0", packed(values_of(event)), further_fields(event))
            stream.hand(self._keys.shard_of(event), events=[replayed], since=Progress())
        return replay

    async def run_until_idle(self, *, within_ms: int = 30_000) -> None:
        """Runs a worker until every event is settled or waits for its retry; raises AssertionError when that takes too long."""
        await groups.declare(self._acts, keys=self._keys, group=self._group)
        worker = _StillWorker(
            self._group,
            consumer="testing",
            registry=self._registry,
            settings=self._settings,
            log=self._log,
            home=self._home,
            telemetry=self._telemetry,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            async with asyncio.timeout(within_ms / 1000):
                while not running.done() and not await self._is_idle():  # noqa: ASYNC110 - the server sets no event of ours
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise AssertionError(f"after {within_ms} ms and {len(self.runs)} attempts there are events that nobody has settled") from None
        finally:
            stop.set()
            await running

    async def _is_idle(self) -> bool:
        for lag in await read_lag(self._acts, keys=self._keys, group=self._group):
            if lag.pending or lag.undelivered:
                return False
            # After some deletions the server cannot count, only look.
            if lag.undelivered is None and await oldest_undelivered_ms(self._acts, keys=self._keys, lag=lag) is not None:
                return False
        return True

    async def advance(self, ms: int) -> int:
        """Lets so much time pass for what waits; returns how many retries are due now, for the next `run_until_idle`."""
        await bring_forward(self._acts, keys=self._keys, by_ms=ms)
        due = 0
        while moved := await promote_due(self._acts, keys=self._keys):
            due += moved
        return due

    async def waiting(self) -> int:
        """How many retries wait for their time."""
        return await count_waiting(self._acts, keys=self._keys)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """What the group has given up on, the oldest first."""
        letters = DeadLetters.open(self._log, home=self._home)
        try:
            return list(letters.letters())[::-1]
        finally:
            letters.close()

    @property
    def once(self) -> OnceReader:
        """What the processors wrote through `delivery.once`, for as long as the block runs."""
        if self._once is None:
            self._once = OnceReader.open(self._log, home=self._home, group=self._group)
        return self._once

    async def close(self) -> None:
        if self._once is not None:
            self._once.close()
        await self._stream.close()
        await self._acts.close()


class _StillHousekeeping(Housekeeping):
    """For it no time passes: what waits for its retry waits until `advance`, however slow the machine is."""

    async def promote(self) -> None:
        pass


class _StillUpkeep(Upkeep):
    housekeeping = _StillHousekeeping


class _StillWorker(Worker):
    upkeep = _StillUpkeep


@asynccontextmanager
async def processing(*processors: Processors, on: LogSettings | None = None, group: str = "testing", **options: Any) -> AsyncIterator[Lake]:
    """A lake with these processors: functions with @processor, modules, or references as `hooklake work` takes them.

    `on` is what `log_server` gave; without it the block has a server of its own. `options` are settings of the group.
    Raises ConfigError for what no worker could run.
    """
    settings = validate({**QUICK, **options}, GroupSettings, at=f"groups.{group}")
    specs = [spec for given in processors for spec in _specs(given)]
    if on is None:
        with log_server() as log:
            async with processing(*processors, on=log, group=group, **options) as lake:
                yield lake
        return
    with TemporaryDirectory(prefix="hooklake-") as home:
        telemetry = Telemetry.start("testing", TelemetrySettings(log_level="warning"), home=Path(home))
        log = on.model_copy(update={"prefix": f"t-{secrets.token_hex(8)}:", "shards": 1})
        lake = Lake(specs, group=group, settings=settings, log=log, home=Path(home), telemetry=telemetry)
        try:
            yield lake
        finally:
            await lake.close()
            telemetry.shutdown()


@contextmanager
def log_server() -> Iterator[LogSettings]:
    """A real log server for the block, for many `processing(..., on=...)` to share: each of them has a log of its own there."""
    with TemporaryDirectory(prefix="hooklake-") as directory:
        server = EmbeddedServer(Path(directory), free_port(), password=secrets.token_hex(16))
        server.start()
        try:
            yield LogSettings(url=server.url)
        finally:
            server.stop()


def _specs(given: Processors) -> list[ProcessorSpec]:
    if isinstance(given, ProcessorSpec):
        return [given]
    if isinstance(given, str):
        return specs_called(given)
    if isinstance(given, ModuleType):
        return specs_in(given)
    spec = getattr(given, ATTRIBUTE, None)
    if not isinstance(spec, ProcessorSpec):
        raise ConfigError(f"{given!r} is no function with @processor, so there is nothing to run")
    return [spec]


__all__ = ["Lake", "Run", "log_server", "processing"]
