"""Owns the certificates that Amazon SNS signs with: fetched from the one kind of address that may have them, and kept.

Off unless a source asks for it (`fetch_certificates`). A request names the certificate that signed it, so whoever can post here
chooses an address: only `sns.<region>.amazonaws.com` is ever called, over TLS, without following it anywhere, a few times a minute, and
for messages of the source's own topics only. Who knows such a topic can still use up the fetches of a minute with names that he makes
up; messages under certificates that are here already do not wait for that.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import overload
from urllib.parse import urlsplit

from ingest.keys import Key, key_id_of
from ingest.request import Request, text_at
from ingest.scheme import Scheme
from schemas.errors import BadSignature, ConfigError, Unavailable

is_amazons = re.compile(r"https://sns\.[a-z0-9-]{1,40}\.amazonaws\.com(\.cn)?/SimpleNotificationService-[0-9a-f]{1,64}\.pem").fullmatch
ADDRESS = "SigningCertURL"
TIMEOUT_S = 5
LARGEST_BYTES = 16 * 1024
MOST_KEPT = 16
MOST_FETCHES = 10
WITHIN = timedelta(minutes=1)

Fetch = Callable[[str], bytes]
"""Blocks; raises OSError or HTTPException when there is no answer, and LookupError when the answer is that there is nothing."""


class Certificates(Sequence[Key]):
    """The keys that were fetched so far, as the secrets of a source."""

    def __init__(self, scheme: Scheme, *, at: str, topics: frozenset[str] = frozenset(), fetch: Fetch | None = None) -> None:
        self._scheme = scheme
        self._topics = topics
        self._at = at
        self._fetch = fetch or fetched
        self._kept: dict[str, tuple[Key, datetime]] = {}
        self._fetches: list[datetime] = []
        self._turn = asyncio.Lock()

    async def obtain(self, request: Request, *, now: datetime) -> None:
        """Has the certificate that the request names; raises BadSignature when there is none, Unavailable when Amazon does not answer."""
        # First of all: who does not know a topic of the source, which no answer tells, can use up no fetch.
        if self._topics and text_at(request.json, "TopicArn") not in self._topics:
            raise BadSignature("the message is of an SNS topic that is not among the source's topics")
        address = text_at(request.json, ADDRESS)
        if not is_amazons(address):
            raise BadSignature(f"{ADDRESS} is no address of Amazon's certificates")
        if self._has(address, now=now):
            return
        async with self._turn:
            if not self._has(address, now=now):
                await self._add(address, now=now)

    def _has(self, address: str, *, now: datetime) -> bool:
        kept = self._kept.get(address)
        return kept is not None and now < kept[1]

    async def _add(self, address: str, *, now: datetime) -> None:
        self._fetches = [then for then in self._fetches if now - then < WITHIN]
        if len(self._fetches) >= MOST_FETCHES:
            raise Unavailable(f"{MOST_FETCHES} certificates were asked for within a minute already; the next one has to wait")
        self._fetches.append(now)
        key, ends_at = self._read(await self._answer(address), address=address)
        if now >= ends_at:
            raise BadSignature(f"the certificate at {address} has expired")
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[address] = key, ends_at

    async def _answer(self, address: str) -> bytes:
        try:
            return await asyncio.to_thread(self._fetch, address)
        except LookupError as error:
            raise BadSignature(f"there is no certificate at {address}") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the certificate at {address} cannot be fetched ({error}); the request may be genuine") from error

    def _read(self, text: bytes, *, address: str) -> tuple[Key, datetime]:
        from ingest.public_keys import certificate_ends_at, public_key

        try:
            return public_key(self._scheme, text=text, key_id=key_id_of(text), at=self._at), certificate_ends_at(text)
        except ConfigError as error:
            raise BadSignature(f"what stands at {address} is no certificate") from error

    @overload
    def __getitem__(self, index: int) -> Key: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Key]: ...
    def __getitem__(self, index: int | slice) -> Key | Sequence[Key]:
        return [key for key, _ in self._kept.values()][index]

    def __len__(self) -> int:
        return len(self._kept)


def fetched(address: str) -> bytes:
    """What stands at an https address; follows nothing."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = http.client.HTTPSConnection(parts.hostname, timeout=TIMEOUT_S, context=ssl.create_default_context())
    try:
        connection.request("GET", parts.path)
        response = connection.getresponse()
        if response.status in (403, 404):
            raise LookupError(address)
        if response.status != 200:
            raise OSError(f"status {response.status}")
        return response.read(LARGEST_BYTES)
    finally:
        connection.close()
