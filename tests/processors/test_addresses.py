from __future__ import annotations

from ipaddress import ip_address

import pytest

from processors.addresses import NEVER, PRIVATE, numeric_address, why_refused

PRIVATE_ADDRESSES = ["127.0.0.1", "127.8.8.8", "::1", "10.1.2.3", "172.31.255.255", "192.168.0.1", "fc00::1", "fd12::1", "100.64.0.1"]
NEVER_REACHED = [
    "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "fe80::1", "fec0::1", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
    "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "192.0.0.192", "198.18.0.1", "192.88.99.1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "2002:7f00:1::", "2002:808:808::", "2001:0:1::1", "64:ff9b:1::808:808",
    "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "100::1", "4000::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_a_private_address_is_reached_only_when_that_is_allowed(address: str) -> None:
    assert why_refused(ip_address(address), allow_private=False)
    assert not why_refused(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", NEVER_REACHED)
def test_some_addresses_are_never_reached(address: str) -> None:
    assert why_refused(ip_address(address), allow_private=False)
    assert why_refused(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_reached(address: str) -> None:
    assert not why_refused(ip_address(address), allow_private=False)


@pytest.mark.parametrize("network", [network for network, _ in (*NEVER, *PRIVATE)], ids=str)
def test_every_network_of_the_tables_is_refused_from_its_first_address_to_its_last(network: object) -> None:
    first, last = network[0], network[-1]  # type: ignore[index]

    assert why_refused(first, allow_private=False)
    assert why_refused(last, allow_private=False)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_an_address_is_known_in_every_spelling_that_the_machine_understands(host: str, address: str) -> None:
    assert numeric_address(host) == ip_address(address)


@pytest.mark.parametrize("host", ["localhost", "crm.example", "a" * 300])
def test_a_name_is_no_address(host: str) -> None:
    assert numeric_address(host) is None
