"""Owns what becomes of a refused request of a configured source: it is kept aside, best effort, and the sender's answer never waits for it.

A stranger decides how many there are, so a flood must cost little: a rate per source before anything is copied, a short queue, and a
cap on the log. What is not kept is counted. Headers whose names speak of a secret are not kept, unless a scheme reads them as something
else: what proves a signature is kept, so that a person can let the request in later (`release.py`), also under mended settings.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from infra.clock import Clock, EventIds
from infra.running.loops import BackOff, keep_running
from infra.sections import QuarantineSettings
from infra.streams.quarantine import size_of
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.rates import Bucket
from ingest.request import Request
from ingest.scheme import Header, Scheme
from ingest.schemes import SCHEMES
from ingest.sources import Source
from schemas.errors import BadSignature, HooklakeError, MalformedRequest, Refused, SchemaMismatch, StaleTimestamp, UnsupportedEncoding
from schemas.quarantined import QuarantinedRequest

WORTH_KEEPING = (BadSignature, StaleTimestamp, MalformedRequest, SchemaMismatch, UnsupportedEncoding)
SECRET_NAME = re.compile(r"auth|bearer|cookie|credential|key|token|secret|session|jwt|oidc|saml|assertion|pass|pwd|[cx]srf")
MOST_WAITING = 200
MOST_WAITING_BYTES = 8 * 1024 * 1024
LONGEST_REASON = 500
INTERVAL_MS = 100
BACK_OFF = BackOff(first_ms=200, cap_ms=5000)


class Quarantine:
    """The receiver's side of the quarantine: takes requests in at once, and brings them to the log in the background."""

    def __init__(self, stream: EventStream, *, settings: QuarantineSettings, ids: EventIds, clock: Clock, telemetry: Telemetry) -> None:
        self._stream = stream
        self._settings = settings
        self._ids = ids
        self._clock = clock
        self._telemetry = telemetry
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._waiting: deque[QuarantinedRequest] = deque()
        self._waiting_bytes = 0
        self._unkept: Counter[tuple[str, str]] = Counter()
        """Dropped here, and not yet told to the log."""

    def take_in(self, source: Source, *, request: Request, error: Refused, received_at: datetime, remote_address: str) -> None:
        """Never raises and never waits: the sender has its answer."""
        if not isinstance(error, WORTH_KEEPING) or self._settings.cap == 0:
            return
        if not self._has_room(source, size_bytes=len(request.body)):
            self._drop(source.tenant, source.name)
            return
        headers, removed = kept_headers(source.scheme, headers=request.headers.values)
        refused = QuarantinedRequest(
            event_id=self._ids.mint(),
            tenant_id=source.tenant,
            source=source.name,
            code=error.code,
            reason=str(error)[:LONGEST_REASON],
            received_at=received_at,
            remote_address=remote_address,
            query=request.query if source.public_url else "",
            headers=headers,
            removed_headers=removed,
            repeated_headers=tuple(sorted(request.headers.repeated)),
            body=request.body,
        )
        self._waiting.append(refused)
        self._waiting_bytes += size_of(refused)

    def _has_room(self, source: Source, *, size_bytes: int) -> bool:
        if len(self._waiting) >= MOST_WAITING or self._waiting_bytes + size_bytes > MOST_WAITING_BYTES:
            return False
        now, key = self._clock.monotonic(), (source.tenant, source.name)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._settings.per_second, burst=self._settings.burst, now=now)
        return bucket.take(now)

    def _drop(self, tenant: str, source: str, *, is_told: bool = False) -> None:
        self._telemetry.unkept.add(1, {"tenant": tenant, "source": source})
        if not is_told:
            self._unkept[tenant, source] += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Brings what was taken in to the log; what is there when it ends is brought first."""
        stop = asyncio.Event()
        named = {"name": "quarantine", "telemetry": self._telemetry, "stop": stop}
        working = asyncio.create_task(keep_running(self.step, **named, interval_ms=INTERVAL_MS, back_off=BACK_OFF))  # type: ignore[arg-type]
        try:
            yield
        finally:
            stop.set()
            await working

    async def step(self) -> None:
        """Brings everything that waits to the log; raises nothing, since what it does not take is dropped."""
        while self._waiting:
            request = self._waiting.popleft()
            self._waiting_bytes -= size_of(request)
            try:
                is_kept = await self._stream.quarantine(request, cap=self._settings.cap, cap_bytes=self._settings.cap_bytes)
            except HooklakeError:
                self._drop(request.tenant_id, request.source)
                continue
            if is_kept:
                self._telemetry.quarantined.add(1, {"tenant": request.tenant_id, "source": request.source})
            else:
                self._drop(request.tenant_id, request.source, is_told=True)
        await self._tell_unkept()

    async def _tell_unkept(self) -> None:
        for (tenant, source), count in list(self._unkept.items()):
            try:
                await self._stream.count_unkept(tenant, source=source, count=count)
            except HooklakeError:
                return
            self._unkept[tenant, source] -= count
            if not self._unkept[tenant, source]:
                del self._unkept[tenant, source]


def kept_headers(scheme: Scheme, *, headers: dict[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The headers without those whose names speak of a secret, and the names of these. Pure."""
    # Of every scheme and not of the source's alone: that may be the wrong one, and be mended before the release.
    schemes = (scheme, *SCHEMES.values())
    shown = {one.signature.name for one in schemes if one.algorithm == "token" and isinstance(one.signature, Header)}
    # Some that prove or name a delivery are called tokens or keys, too (Twilio's, Bitbucket's); an event would have them as well.
    read = {name for one in schemes for name in (*one.proof_headers, *one.kept_headers)}
    removed = {name for name in headers if name in shown or (_speaks_of_a_secret(name) and name not in read)}
    return {name: value for name, value in headers.items() if name not in removed}, tuple(sorted(removed))


def _speaks_of_a_secret(name: str) -> bool:
    # A signature is none, and may be what the settings should have named.
    return SECRET_NAME.search(name) is not None and "signature" not in name
