"""Owns which addresses events may be forwarded to. Pure: the tables, and the check of one address.

Not asked of `ipaddress.is_global`, whose answer changes with Python's release: what may be reached stands here.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NEVER: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("::/128", "unspecified"),
        ("169.254.0.0/16", "link-local, where clouds keep credentials"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("224.0.0.0/4", "multicast"),
        ("ff00::/8", "multicast"),
        ("100.100.100.200/32", "a cloud's metadata service"),
        ("168.63.129.16/32", "a cloud's metadata service"),
        ("fd00:ec2::/32", "a cloud's metadata service"),
        ("fd20:ce::/64", "a cloud's metadata service"),
        ("192.0.0.0/24", "set aside for protocols"),
        ("192.0.2.0/24", "set aside for documents"),
        ("198.51.100.0/24", "set aside for documents"),
        ("203.0.113.0/24", "set aside for documents"),
        ("2001:db8::/32", "set aside for documents"),
        ("3fff::/20", "set aside for documents"),
        ("198.18.0.0/15", "set aside for benchmarks"),
        ("192.88.99.0/24", "a relay of 6to4"),
        ("240.0.0.0/4", "reserved, or broadcast"),
        # An IPv4 address in other clothes: no public server needs them, and what is inside could be anything.
        ("::ffff:0:0/96", "an IPv4 address wrapped in IPv6"),
        ("2002::/16", "an IPv4 address wrapped by 6to4"),
        ("64:ff9b:1::/48", "an IPv4 address wrapped by a local NAT64"),
        ("2001::/23", "Teredo, or set aside for protocols"),
    )
)
"""Refused whatever the settings say."""

PRIVATE: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("127.0.0.0/8", "loopback"),
        ("::1/128", "loopback"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("fc00::/7", "private"),
        ("100.64.0.0/10", "shared by a carrier's customers"),
    )
)
"""Refused unless `allow_private` is set."""

NAT64 = IPv6Network("64:ff9b::/96")
"""In a network without IPv4 every public IPv4 server has such an address: what is inside decides."""
GLOBAL_IPV6 = IPv6Network("2000::/3")


def why_refused(address: Address, *, allow_private: bool) -> str:
    """What the address is, if events may not go there; else an empty text."""
    if isinstance(address, IPv6Address) and address in NAT64:
        inside = why_refused(IPv4Address(int(address) & 0xFFFF_FFFF), allow_private=False)
        return f"NAT64 of an address that is {inside}" if inside else ""
    for network, what in NEVER:
        if address in network:
            return what
    for network, what in PRIVATE:
        if address in network:
            return "" if allow_private else what
    return "" if isinstance(address, IPv4Address) or address in GLOBAL_IPV6 else "no global address"


def numeric_address(host: str) -> Address | None:
    """The address that a host spells out, also as `2130706433` or `0x7f.1`; None for a name. Asks no server."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        return None
    return ip_address(found[0][4][0])
