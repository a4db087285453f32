"""How many connections one address may have."""

from __future__ import annotations

import pytest

from infra.running.serving_limits import ServingLimits
from infra.running.shares import Shares, client_at

HERE, THERE = "198.51.100.7", "203.0.113.9"


def test_an_address_is_above_its_share_by_what_it_has_open_beyond_it() -> None:
    shares = Shares(2)

    assert [shares.enter(HERE) for _ in range(4)] == [0, 0, 1, 2]
    assert shares.enter(THERE) == 0


def test_what_is_gone_leaves_room_again() -> None:
    shares = Shares(1)
    shares.enter(HERE)

    shares.leave(HERE)

    assert shares.enter(HERE) == 0


def test_nobody_is_remembered_who_has_nothing_open() -> None:
    shares = Shares(1)
    for number in range(100):
        shares.enter(f"198.51.100.{number}")
        shares.leave(f"198.51.100.{number}")

    assert not shares._open


def test_who_stands_for_many_has_no_share() -> None:
    shares = Shares(1, is_exempt=lambda address: address == "2001:db8::1")

    assert [shares.enter("2001:db8::1") for _ in range(3)] == [0, 0, 0]
    shares.enter("2001:db8::2")
    shares.leave("2001:db8::1")

    assert shares.enter("2001:db8::3") == 1  # Its neighbour's is counted still.


@pytest.mark.parametrize(
    ("address", "client"),
    [
        pytest.param(HERE, HERE, id="IPv4"),
        pytest.param(f"::ffff:{HERE}", HERE, id="IPv4 on an IPv6 socket"),
        pytest.param("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", id="IPv6"),
        pytest.param("/run/a.sock", "/run/a.sock", id="no address of the Internet"),
    ],
)
def test_addresses_that_one_client_has_at_will_are_one(address: str, client: str) -> None:
    assert client_at(address) == client


@pytest.mark.parametrize(("most", "per_address", "share"), [(10_000, None, 5_000), (1, None, 1), (10_000, 20, 20)])
def test_half_is_left_to_the_others_unless_set_otherwise(most: int, per_address: int | None, share: int) -> None:
    assert ServingLimits(max_connections=most, max_connections_per_address=per_address).share == share
