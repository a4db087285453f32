"""Owns how many connections each address has open, so that one that opens all it can leaves room for the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

# Who has any address of IPv6 has as many of them as share these bits.
IPV6_PREFIX = 64


class Shares:
    """Whoever is no client itself, as a proxy that stands before many, has no share that could be used up."""

    __slots__ = ("_is_exempt", "_most", "_open")

    def __init__(self, most: int, *, is_exempt: Callable[[str], bool] = lambda _: False) -> None:
        self._most = most
        self._is_exempt = is_exempt
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> int:
        """Counts one more; by how many the address is above its share now."""
        if not self._has_share(address):
            return 0
        client = client_at(address)
        self._open[client] += 1
        return max(0, self._open[client] - self._most)

    def leave(self, address: str) -> None:
        """One that was counted is gone."""
        if not self._has_share(address):
            return
        client = client_at(address)
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]  # Or every address that ever came would be kept.

    def _has_share(self, address: str) -> bool:
        return bool(address) and not self._is_exempt(address)


def client_at(address: str) -> str:
    """Whom the connections from an address are counted for."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return address
    # A socket that listens on IPv6 shows IPv4 peers so.
    return str(known.ipv4_mapped or ip_network((known.packed, IPV6_PREFIX), strict=False))
