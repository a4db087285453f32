"""Owns receivers without a process of their own: what a request needs, put together in the process of the test, on a real log."""

from __future__ import annotations

from pathlib import Path

from infra.clock import Clock, EventIds
from infra.sections import QuarantineSettings
from infra.settings import LogSettings, load_settings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.appending import Appender
from ingest.keeping import Keeper
from ingest.limits import InFlight
from ingest.quarantine import Quarantine
from ingest.rates import Rates
from ingest.receive import Receiver
from ingest.settings import IngestSettings
from ingest.sources import Sources
from ingest.spool import Spool
from ingest.subscriptions import Confirmations
from ingest.watch import LogWatch
from tests.ingest.receivers import write_home


def receiver_inside(
    home: Path, *, log: LogSettings, stream: EventStream, telemetry: Telemetry, in_flight: InFlight, spool: Spool | None = None
) -> Receiver:
    """It has never looked at its log."""
    clock = Clock()
    ids = EventIds(clock)
    appender = Appender(stream, LogWatch(log, home=home, stream=stream, telemetry=telemetry), telemetry)
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
