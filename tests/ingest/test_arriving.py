"""How much bodies may hold that are still on their way."""

from __future__ import annotations

import pytest

from ingest.arriving import Arriving
from schemas.errors import Overloaded

HERE, THERE, ELSEWHERE = "198.51.100.7", "203.0.113.9", "192.0.2.1"


def test_the_bodies_of_one_address_leave_half_to_the_others() -> None:
    arriving = Arriving(400)
    first, second, third = arriving.begin(HERE), arriving.begin(HERE), arriving.begin(THERE)
    arriving.grow(first, 60, held_bytes=0)
    arriving.grow(second, 40, held_bytes=0)

    with pytest.raises(Overloaded, match=r"^bodies from this address .* 100 bytes"):
        arriving.grow(second, 1, held_bytes=40)
    arriving.grow(third, 100, held_bytes=0)


def test_the_bodies_of_all_addresses_hold_no_more_than_half() -> None:
    arriving = Arriving(400)
    for address in (HERE, THERE):
        arriving.grow(arriving.begin(address), 100, held_bytes=0)
    late = arriving.begin(ELSEWHERE)

    with pytest.raises(Overloaded, match=r"^bodies that .* 200 bytes"):
        arriving.grow(late, 1, held_bytes=0)


def test_the_only_body_of_its_address_may_be_larger_than_its_share() -> None:
    arriving = Arriving(400)
    arriving.grow(arriving.begin(HERE), 50, held_bytes=0)
    large = arriving.begin(THERE)

    arriving.grow(large, 150, held_bytes=0)

    with pytest.raises(Overloaded):
        arriving.grow(large, 1, held_bytes=150)


def test_the_only_body_may_be_larger_than_all_together_though_others_begin() -> None:
    arriving = Arriving(400)
    large, late = arriving.begin(HERE), arriving.begin(HERE)
    arriving.grow(large, 300, held_bytes=0)

    with pytest.raises(Overloaded):
        arriving.grow(late, 1, held_bytes=0)
    arriving.grow(large, 300, held_bytes=300)


def test_what_has_ended_leaves_room_again() -> None:
    arriving = Arriving(400)
    first, second = arriving.begin(HERE), arriving.begin(HERE)
    arriving.grow(first, 100, held_bytes=0)

    arriving.end(first, held_bytes=100)

    arriving.grow(second, 100, held_bytes=0)


def test_nobody_is_remembered_from_whom_nothing_is_on_its_way() -> None:
    arriving = Arriving(400)
    for number in range(100):
        client = arriving.begin(f"198.51.100.{number}")
        arriving.grow(client, 50, held_bytes=0)
        arriving.end(client, held_bytes=50)

    assert (arriving._clients, arriving._held_bytes) == ({}, 0)


def test_addresses_that_one_client_has_at_will_share() -> None:
    arriving = Arriving(400)
    arriving.grow(arriving.begin("2001:db8::1"), 100, held_bytes=0)
    neighbour, stranger = arriving.begin("2001:db8::2"), arriving.begin("2001:db8:0:1::1")

    with pytest.raises(Overloaded):
        arriving.grow(neighbour, 1, held_bytes=0)
    arriving.grow(stranger, 100, held_bytes=0)
