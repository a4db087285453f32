"""Owns the forwarder's way onto the network: a name is resolved here, checked, and the checked address is connected to.

Whoever checks a name and then hands the name on can be given another answer the second time. Here the name is asked for
once per connection, and only the address that was checked goes further; TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address

import httpcore

from processors.addresses import Address, why_refused
from processors.signals import Reject

Resolver = Callable[[str, int], Awaitable[list[Address]]]


async def resolve(host: str, port: int) -> list[Address]:
    """All addresses of a host, in the order of the machine's own preference; raises httpcore.ConnectError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
    return list(dict.fromkeys(ip_address(where[0]) for *_, where in found))


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that may be reached. `at` names the settings, for the sentence that refuses."""

    def __init__(self, *, allow_private: bool, at: str, resolve: Resolver = resolve) -> None:
        self._allow_private = allow_private
        self._at = at
        self._resolve = resolve
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Tries the allowed addresses in turn; raises Reject when there is none, else httpcore's errors."""
        allowed = self._allowed(host, found=await self._resolve(host, port))
        # An address that swallows packets must leave time for the next one.
        share = timeout / len(allowed) if timeout is not None else None
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in allowed:
            try:
                return await self._plain.connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _allowed(self, host: str, *, found: list[Address]) -> list[Address]:
        refused = {address: why_refused(address, allow_private=self._allow_private) for address in found}
        if refused and all(refused.values()):
            shown = ", ".join(f"{address} ({why})" for address, why in refused.items())
            raise Reject(f"{host} leads to {shown}, where nothing is forwarded to; {self._at}.allow_private decides about private ones")
        return [address for address, why in refused.items() if not why]
