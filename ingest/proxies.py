"""Owns who sent a request that came through proxies: only what our own proxies say about it is believed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
MOST_HOPS = 16


class Proxies:
    """The proxies that are ours. Without any, the peer of the connection is the sender, whatever headers say."""

    __slots__ = ("_networks",)

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def sender(self, peer: str, *, raw_headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The address that the outermost of our proxies saw.

        Each proxy adds its peer at the end of X-Forwarded-For, so it is read from there; what stands before the first address
        that is not ours was written by a stranger.
        """
        if not self.has(peer):
            return peer
        found = peer
        for text in reversed(_forwarded(raw_headers)):
            address = _address(text)
            if address is None:
                return found
            found = str(address)
            if not self._contain(address):
                return found
        return found

    def has(self, peer: str) -> bool:
        """Whether it is one of ours."""
        return bool(self._networks) and self._contain(_address(peer))

    def _contain(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _forwarded(raw_headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    lines = [value.decode("latin-1") for name, value in raw_headers if name == b"x-forwarded-for"]
    return [text.strip() for text in ",".join(lines).rsplit(",", MOST_HOPS)[-MOST_HOPS:]]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket that listens on IPv6 shows IPv4 peers so.
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
