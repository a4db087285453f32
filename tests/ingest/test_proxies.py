"""Who sent a request, when proxies stand in between."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from ingest.proxies import Proxies

OURS = Proxies([ip_network("10.0.0.0/8"), ip_network("fd00::/8")])


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        pytest.param("198.51.100.7", [b"203.0.113.9"], "198.51.100.7", id="a stranger says whatever it likes"),
        pytest.param("10.0.0.1", [b"203.0.113.9"], "203.0.113.9", id="our proxy says whom it saw"),
        pytest.param("10.0.0.1", [], "10.0.0.1", id="our proxy says nothing"),
        pytest.param("10.0.0.1", [b"1.1.1.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9", id="two proxies of ours, and a forged beginning"),
        pytest.param("10.0.0.1", [b"1.1.1.1", b"203.0.113.9"], "203.0.113.9", id="two header lines"),
        pytest.param("10.0.0.1", [b"1.1.1.1, nonsense"], "10.0.0.1", id="no address at all"),
        pytest.param("10.0.0.1", [b"nonsense, 10.0.0.2"], "10.0.0.2", id="no address before ours"),
        pytest.param("10.0.0.1", [b"\xff\xfe"], "10.0.0.1", id="no text"),
        pytest.param("10.0.0.1", [b"2001:db8::1"], "2001:db8::1", id="IPv6"),
        pytest.param("::ffff:10.0.0.1", [b"203.0.113.9"], "203.0.113.9", id="IPv4 on an IPv6 socket"),
        pytest.param("fd00::1", [b"203.0.113.9"], "203.0.113.9", id="a proxy on IPv6"),
        pytest.param("10.0.0.1", [b"9.9.9.9," * 5000 + b"10.0.0.3"], "9.9.9.9", id="very long"),
        pytest.param("", [b"203.0.113.9"], "", id="no peer"),
    ],
)
def test_only_what_our_own_proxies_add_is_believed(peer: str, forwarded: list[bytes], sender: str) -> None:
    assert OURS.sender(peer, raw_headers=[(b"x-forwarded-for", value) for value in forwarded]) == sender


def test_without_proxies_nothing_is_believed() -> None:
    assert Proxies().sender("10.0.0.1", raw_headers=[(b"x-forwarded-for", b"203.0.113.9")]) == "10.0.0.1"
