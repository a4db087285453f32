"""Names are resolved once, and only what was checked is connected to."""

from __future__ import annotations

from ipaddress import ip_address

import httpcore
import pytest

from processors import Reject
from processors.addresses import Address
from processors.reach import CheckedNetwork, Resolver, resolve
from tests.processors.endpoint import serving

NOBODY = "127.0.0.9"


def answering(*answers: list[str]) -> tuple[Resolver, list[str]]:
    """A name server of the far side: one answer after the other; and the names it was asked for."""
    asked: list[str] = []
    left = list(answers)

    async def resolver(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [ip_address(address) for address in left.pop(0)]

    return resolver, asked


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "::1", "0.0.0.0", "0", "2130706433", "0x7f000001", "127.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::"],
)
async def test_no_name_of_this_machine_is_reached(host: str) -> None:
    with serving() as endpoint:
        port = int(endpoint.url.rpartition(":")[2])

        with pytest.raises(Reject, match=r"leads to .* where nothing is forwarded to; groups.g.forward.allow_private decides"):
            await CheckedNetwork(allow_private=False, at="groups.g.forward").connect_tcp(host, port)

    assert endpoint.connections == set()


@pytest.mark.parametrize("host", ["0.0.0.0", "::ffff:127.0.0.1", "169.254.169.254"])
async def test_some_addresses_are_not_reached_even_when_private_ones_are(host: str) -> None:
    with pytest.raises(Reject):
        await CheckedNetwork(allow_private=True, at="groups.g.forward").connect_tcp(host, 1)


async def test_a_second_answer_of_the_name_server_changes_nothing() -> None:
    resolver, asked = answering(["127.0.0.1"], ["10.0.0.1"])
    network = CheckedNetwork(allow_private=True, at="", resolve=resolver)
    with serving() as endpoint:
        # No name server knows this name: whoever asked for it again would connect to nothing.
        stream = await network.connect_tcp("pinned.invalid", int(endpoint.url.rpartition(":")[2]), timeout=5)
        server = stream.get_extra_info("server_addr")
        await stream.aclose()

    assert asked == ["pinned.invalid"]
    assert server[0] == "127.0.0.1"


async def test_every_connection_is_checked_anew() -> None:
    resolver, _ = answering(["127.0.0.1"], ["169.254.169.254"])
    network = CheckedNetwork(allow_private=True, at="", resolve=resolver)
    with serving() as endpoint:
        port = int(endpoint.url.rpartition(":")[2])
        await (await network.connect_tcp("turning.invalid", port, timeout=5)).aclose()

        with pytest.raises(Reject, match="link-local"):
            await network.connect_tcp("turning.invalid", port, timeout=5)


async def test_among_several_addresses_only_the_allowed_are_tried_one_after_the_other() -> None:
    resolver, _ = answering(["169.254.169.254", NOBODY, "127.0.0.1"])
    network = CheckedNetwork(allow_private=True, at="", resolve=resolver)
    with serving() as endpoint:
        stream = await network.connect_tcp("several.invalid", int(endpoint.url.rpartition(":")[2]), timeout=5)
        server = stream.get_extra_info("server_addr")
        await stream.aclose()

    assert server[0] == "127.0.0.1"


async def test_a_refused_address_is_not_tried_when_the_allowed_ones_fail() -> None:
    resolver, _ = answering(["0.0.0.0", NOBODY])
    network = CheckedNetwork(allow_private=True, at="", resolve=resolver)
    with serving() as endpoint, pytest.raises(httpcore.ConnectError):  # And 0.0.0.0 would have led to this very endpoint.
        await network.connect_tcp("several.invalid", int(endpoint.url.rpartition(":")[2]), timeout=5)


async def test_the_machines_own_resolver_is_asked() -> None:
    assert set(await resolve("localhost", 80)) <= {ip_address("127.0.0.1"), ip_address("::1")}


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".invalid"])
async def test_a_name_that_cannot_be_resolved_is_no_answer(host: str) -> None:
    with pytest.raises(httpcore.ConnectError, match="cannot be resolved"):
        await resolve(host, 80)
