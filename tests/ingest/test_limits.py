"""How much a receiver takes on."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive

from ingest.body import read_body
from ingest.limits import InFlight
from schemas.errors import Overloaded

HERE, THERE, ELSEWHERE = "198.51.100.7", "203.0.113.9", "192.0.2.1"


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

    with in_flight.request(arriving_from=HERE) as slow, in_flight.request(arriving_from=HERE):
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


def test_bodies_on_their_way_leave_half_to_those_that_are_here() -> None:
    in_flight = InFlight(10, limit_bytes=400)

    with (
        in_flight.request(arriving_from=HERE) as first,
        in_flight.request(arriving_from=THERE) as second,
        in_flight.request(arriving_from=ELSEWHERE) as third,
    ):
        first.grow(100)
        second.grow(100)
        with pytest.raises(Overloaded, match="still on their way"):
            third.grow(1)
        assert in_flight.has_room(200)
        with in_flight.request() as here:
            here.grow(200)


def test_a_body_that_has_arrived_makes_room_for_others_on_their_way() -> None:
    in_flight = InFlight(10, limit_bytes=400)

    with in_flight.request(arriving_from=HERE) as first, in_flight.request(arriving_from=HERE) as second:
        first.grow(100)
        first.arrived()
        second.grow(100)
        first.grow(200)  # What is here takes part in the whole of it.

        with pytest.raises(Overloaded):
            first.grow(1)


def test_a_body_that_does_not_arrive_gives_back_what_it_held() -> None:
    in_flight = InFlight(10, limit_bytes=400)

    with in_flight.request(arriving_from=HERE) as held:
        held.grow(100)

    assert (in_flight._begun, in_flight._count, in_flight._bytes) == (0, 0, 0)
    assert (in_flight._arriving._held_bytes, in_flight._arriving._clients) == (0, {})


def test_a_body_that_arrives_when_there_is_no_place_for_it_gives_back_what_it_held() -> None:
    in_flight = InFlight(1, limit_bytes=400)

    with in_flight.request(arriving_from=HERE) as late:
        late.grow(100)
        with in_flight.request() as here:
            here.arrived()
            with pytest.raises(Overloaded):
                late.arrived()

    assert (in_flight._begun, in_flight._count, in_flight._bytes) == (0, 0, 0)
    assert (in_flight._arriving._held_bytes, in_flight._arriving._clients) == (0, {})


async def test_a_body_is_counted_while_it_arrives() -> None:
    in_flight = InFlight(10, limit_bytes=100)

    with in_flight.request(), in_flight.request(arriving_from=HERE) as held:
        with pytest.raises(Overloaded):
            await read_body(receive_of(4 * [b"x" * 50]), max_bytes=1000, held=held)

        assert in_flight._bytes == 100


async def test_a_body_that_comes_at_once_takes_nothing_from_those_on_their_way() -> None:
    in_flight = InFlight(10, limit_bytes=400)

    with in_flight.request(arriving_from=HERE) as slow, in_flight.request(arriving_from=HERE) as held:
        slow.grow(100)

        assert await read_body(receive_of([b"x" * 300]), max_bytes=1000, held=held) == b"x" * 300


def receive_of(chunks: list[bytes]) -> Receive:
    left = list(chunks)

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive
