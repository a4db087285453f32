"""How much a receiver takes on."""

from __future__ import annotations

import pytest
from starlette.types import Message

from ingest.body import read_body
from ingest.limits import InFlight
from schemas.errors import Overloaded


def test_requests_above_the_limit_are_told_to_come_again() -> None:
    in_flight = InFlight(1, limit_bytes=100)

    with in_flight.request() as held:
        held.arrived()
        with pytest.raises(Overloaded), in_flight.request():
            pass

    with in_flight.request() as held:
        held.arrived()


def test_requests_whose_bodies_are_on_their_way_keep_nobody_out() -> None:
    in_flight = InFlight(1, limit_bytes=100)

    with in_flight.request() as slow, in_flight.request():
        assert in_flight.has_room(100)
        with in_flight.request() as quick:
            quick.arrived()
            with pytest.raises(Overloaded):
                slow.arrived()
        slow.arrived()

    with in_flight.request() as held:
        held.arrived()


def test_a_request_that_fails_frees_its_place_and_its_bytes() -> None:
    in_flight = InFlight(2, limit_bytes=100)

    with pytest.raises(Overloaded), in_flight.request(), in_flight.request() as held:
        held.grow(101)
    with in_flight.request() as held:
        held.grow(100)

    with in_flight.request(), in_flight.request() as held:
        held.grow(100)


def test_bodies_that_are_too_large_together_are_told_to_come_again() -> None:
    in_flight = InFlight(10, limit_bytes=100)

    with in_flight.request() as first, in_flight.request() as second:
        first.grow(60)
        with pytest.raises(Overloaded):
            second.grow(41)
        second.grow(40)


def test_the_only_request_may_be_larger_than_all_together() -> None:
    in_flight = InFlight(10, limit_bytes=100)

    with in_flight.request() as only:
        only.grow(1000)


async def test_a_body_is_counted_while_it_arrives() -> None:
    in_flight = InFlight(10, limit_bytes=100)
    chunks = [b"x" * 50] * 4

    async def receive() -> Message:
        return {"type": "http.request", "body": chunks.pop(), "more_body": bool(chunks)}

    with in_flight.request(), in_flight.request() as held, pytest.raises(Overloaded):
        await read_body(receive, max_bytes=1000, held=held)

    assert len(chunks) == 1
