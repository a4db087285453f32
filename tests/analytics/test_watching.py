from __future__ import annotations

from analytics.watching import lags
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import StreamEnd

STREAM = StreamName(0, "default")


def test_lag_is_the_difference_of_numbers() -> None:
    assert lags([StreamEnd(STREAM, Position("a", "9-0", 9))], archived={STREAM: Position("a", "4-0", 4)}) == {STREAM: 5}


def test_nothing_of_a_new_incarnation_is_archived() -> None:
    assert lags([StreamEnd(STREAM, Position("b", "9-0", 3))], archived={STREAM: Position("a", "4-0", 400)}) == {STREAM: 3}
    assert lags([StreamEnd(STREAM, Position("b", "9-0", 3))], archived={}) == {STREAM: 3}
