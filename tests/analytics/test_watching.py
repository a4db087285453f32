from __future__ import annotations

from pathlib import Path

from analytics.watching import lags, tell_lag
from infra.settings import TelemetrySettings
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import StreamEnd
from infra.telemetry import Telemetry

STREAM = StreamName(0, "default")


def test_lag_is_the_difference_of_numbers() -> None:
    assert lags([StreamEnd(STREAM, Position("a", "9-0", 9))], archived={STREAM: Position("a", "4-0", 4)}) == {STREAM: 5}


def test_nothing_of_a_new_incarnation_is_archived() -> None:
    assert lags([StreamEnd(STREAM, Position("b", "9-0", 3))], archived={STREAM: Position("a", "4-0", 400)}) == {STREAM: 3}
    assert lags([StreamEnd(STREAM, Position("b", "9-0", 3))], archived={}) == {STREAM: 3}


def test_a_stream_is_labelled_as_workers_label_it(home: Path) -> None:
    telemetry = Telemetry.start("archive", TelemetrySettings(), home=home)

    tell_lag(telemetry, ends=[StreamEnd(STREAM, Position("a", "9-0", 9))], archived={})

    assert b'queue_consumer_lag{group="archive",stream="0:events:default"} 9.0' in telemetry.metrics_page()
    telemetry.shutdown()
