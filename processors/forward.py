"""Owns the forwarder: a processor made of settings, which hands events to an HTTP endpoint and goes by its answer.

    2xx                              ack
    408, 425, 429, 5xx, no answer    Retry, after the answer's Retry-After or else by the group's schedule
    anything else, 3xx included      Reject: a dead letter with the status and the beginning of the answer

httpcore itself and not httpx: a client with a cookie jar, proxies from the environment, netrc and redirects would each need
to be switched off, and has no door for `reach.py`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httpcore

from infra.clock import Clock
from infra.setting_files import FilesNow
from infra.settings import read_secret
from processors.delivery import Delivery
from processors.envelope import headers_of, is_header_value, signing_key
from processors.reach import CheckedNetwork, Resolver, resolve
from processors.registry import ATTRIBUTE, ProcessorSpec, processor
from processors.settings import ForwardSettings
from processors.signals import Reject, Retry
from schemas.errors import ConfigError
from schemas.event import StreamEvent

RETRIED = (408, 425, 429)
LONGEST_WAIT_MS = 3_600_000
MOST_ANSWER_BYTES = 65_536
SHOWN_CHARACTERS = 500
ANSWER_WITHIN_S = 2.0
"""How long the body of an answer may take; the status has been heard by then, and decides."""
IDLE_S = 30.0
NO_ANSWER = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint said."""

    status: int
    retry_after: str
    text: str
    """The beginning of its body."""


class Forwarder:
    """One endpoint, and the connections to it."""

    def __init__(
        self,
        settings: ForwardSettings,
        *,
        headers: Mapping[str, str],
        key: bytes | None,
        pool: httpcore.AsyncConnectionPool,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._key = key
        self._pool = pool
        self._clock = clock
        parts = urlsplit(settings.url)
        # Without path and query, which may hold a token: this is what reasons and log lines show.
        self.origin = f"{parts.scheme}://{parts.netloc}"
        # The host as it is written: httpcore would leave out the brackets of an IPv6 address.
        self._headers = [("host", parts.netloc), ("user-agent", "hooklake"), ("accept-encoding", "identity"), *headers.items()]

    async def forward(self, event: StreamEvent, delivery: Delivery) -> None:
        """Returns when the endpoint has taken the event; raises Retry or Reject."""
        answer = await self._post(event, delivery=delivery)
        signal = signal_of(answer, origin=self.origin, now=self._clock.now())
        if signal is not None:
            raise signal
        delivery.log.debug("event forwarded", to=self.origin, status=answer.status)

    async def _post(self, event: StreamEvent, *, delivery: Delivery) -> Answer:
        own = headers_of(event, delivery=delivery, at_s=self._clock.now_ms() // 1000, key=self._key)
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000) as limit:
                async with self._pool.stream(
                    self._settings.method,
                    self._settings.url,
                    headers=[*self._headers, *own],
                    content=event.payload,
                    extensions={"timeout": {"connect": self._settings.timeout_ms / 1000}},
                ) as response:
                    limit.reschedule(None)
                    return Answer(response.status, _header(response, b"retry-after"), await _beginning(response))
        except TimeoutError as error:
            raise Retry(f"{self.origin} did not answer within {self._settings.timeout_ms} ms") from error
        except NO_ANSWER as error:
            raise Retry(f"{self.origin} did not answer: {type(error).__name__}: {error}") from error


def signal_of(answer: Answer, *, origin: str, now: datetime) -> Retry | Reject | None:
    """What should become of the event; None is an ack. Pure."""
    if 200 <= answer.status < 300:
        return None
    reason = f"{origin} answered {answer.status}" + (f": {answer.text}" if answer.text else "")
    if answer.status in RETRIED or answer.status >= 500:
        return Retry(reason, after_ms=retry_after_ms(answer.retry_after, now=now))
    return Reject(reason)


def retry_after_ms(value: str, *, now: datetime) -> int | None:
    """What a Retry-After asks for, in seconds or as a date, up to an hour; None when it asks for nothing we understand."""
    if re.fullmatch(r"[0-9]{1,9}", value):
        wait_ms = int(value) * 1000
    else:
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return None
        wait_ms = round(((at if at.tzinfo else at.replace(tzinfo=UTC)) - now) / timedelta(milliseconds=1))
    return min(max(0, wait_ms), LONGEST_WAIT_MS)


def _header(response: httpcore.Response, name: bytes) -> str:
    return next((value.decode("latin-1").strip() for key, value in response.headers if key.lower() == name), "")


async def _beginning(response: httpcore.Response) -> str:
    """Reads up to the cap, so that the connection can be used again; a body that is cut, slow or endless changes nothing."""
    body = b""
    with suppress(TimeoutError, *NO_ANSWER):
        async with asyncio.timeout(ANSWER_WITHIN_S), aclosing(cast(AsyncGenerator[bytes], response.aiter_stream())) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > MOST_ANSWER_BYTES:
                    break
    return body[:MOST_ANSWER_BYTES].decode("utf-8", "replace")[:SHOWN_CHARACTERS]


@asynccontextmanager
async def forwarding(
    settings: ForwardSettings,
    *,
    at: str,
    home: Path,
    connections: int,
    clock: Clock | None = None,
    resolve: Resolver = resolve,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[ProcessorSpec]:
    """The processor that forwards, with its connections open meanwhile; raises ConfigError for a secret that cannot be used."""
    headers = {name: _header_value(value, home=home, at=f"{at}.headers.{name}") for name, value in settings.headers.items()}
    key = (
        signing_key(read_secret(settings.secret, home=home, files=FilesNow(), at=f"{at}.secret"), at=f"{at}.secret")
        if settings.secret
        else None
    )
    async with httpcore.AsyncConnectionPool(
        ssl_context=tls or httpcore.default_ssl_context(),
        max_connections=connections,
        keepalive_expiry=IDLE_S,
        network_backend=CheckedNetwork(allow_private=settings.allow_private, at=at, resolve=resolve),
    ) as pool:
        yield _spec(Forwarder(settings, headers=headers, key=key, pool=pool, clock=clock or Clock()), settings=settings)


def _header_value(value: str, *, home: Path, at: str) -> str:
    if value.startswith(("file:", "env:")):
        value = read_secret(value, home=home, files=FilesNow(), at=at, least_bytes=1).decode("latin-1")
    if not is_header_value(value):
        raise ConfigError(f"{at} is empty or has characters that no header can carry; write visible ASCII")
    return value


def _spec(forwarder: Forwarder, *, settings: ForwardSettings) -> ProcessorSpec:
    # The forwarder minds its own time and says more about it; the worker's limit is there for the day it does not.
    timeout_ms = settings.timeout_ms + round(ANSWER_WITHIN_S * 1000) + 1000

    @processor(*settings.types, timeout_ms=timeout_ms)
    async def forward(event: StreamEvent, delivery: Delivery) -> None:
        await forwarder.forward(event, delivery)

    spec: ProcessorSpec = getattr(forward, ATTRIBUTE)
    return replace(spec, name=f"forward:{forwarder.origin}")
