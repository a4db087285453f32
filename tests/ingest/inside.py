"""Owns receivers without a process of their own: what a request needs, put together in the process of the test, on a real log;
and requests that have arrived there, with whoever is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from infra.clock import Clock, EventIds
from infra.running.direct import Arrived, Exchange
from infra.sections import QuarantineSettings
from infra.settings import LogSettings, load_settings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.appending import Appender
from ingest.keeping import Keeper
from ingest.limits import InFlight
from ingest.noting import Noting
from ingest.quarantine import Quarantine
from ingest.rates import Rates
from ingest.receive import Receiver
from ingest.settings import IngestSettings
from ingest.sources import Sources
from ingest.spool import Spool
from ingest.subscriptions import Confirmations
from ingest.watch import LogWatch
from tests.ingest.receivers import PATH, PUSH, signed_headers, write_home

RawHeaders = tuple[tuple[bytes, bytes], ...]


def receiver_inside(
    home: Path,
    *,
    log: LogSettings,
    stream: EventStream,
    telemetry: Telemetry,
    in_flight: InFlight,
    spool: Spool | None = None,
    noting: Noting | None = None,
) -> Receiver:
    """It has never looked at its log."""
    clock = Clock()
    ids = EventIds(clock)
    appender = Appender(stream, LogWatch(log, home=home, stream=stream, telemetry=telemetry), telemetry, noting)
    return Receiver(
        settings=IngestSettings(),
        sources=Sources.from_settings(load_settings(write_home(home, log=log))),
        keeper=Keeper(appender, spool=spool),
        telemetry=telemetry,
        clock=clock,
        ids=ids,
        in_flight=in_flight,
        confirmations=Confirmations(telemetry.log),
        rates=Rates(clock.monotonic),
        quarantine=Quarantine(stream, settings=QuarantineSettings(), ids=ids, clock=clock, telemetry=telemetry),
    )


class Written:
    """What is written to a client, which never goes away by itself."""

    def __init__(self) -> None:
        self.data, self.is_closed, self.answered = b"", False, asyncio.Event()

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    @property
    def default_headers(self) -> RawHeaders:
        return ((b"date", b"today"),)

    def on_response_complete(self) -> None:
        self.answered.set()

    @property
    def status(self) -> int:
        return int(self.data.split()[1])


def arrived(body: bytes = PUSH, *, target: str = PATH, head_bytes: int = 500, more: RawHeaders = (), **changes: Any) -> Arrived:
    headers = [(name.encode(), value.encode()) for name, value in signed_headers(body, **changes).items()]
    return Arrived(target.encode(), [*headers, *more], body, "192.0.2.7", head_bytes)


def exchange_of(client: Written, *, keep_alive: bool = True) -> Exchange:
    return Exchange(client, transport=cast(asyncio.Transport, client), keep_alive=keep_alive)
