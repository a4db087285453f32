"""Owns the sender's side: a signed request as a source's scheme describes it, and the connections that carry many of them."""

from __future__ import annotations

import http.client
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

import orjson

from ingest.headers import Headers
from ingest.keys import only_the_provider_signs
from ingest.request import Request
from ingest.samples import content_type, split_type
from ingest.scheme import Header, parts_of
from ingest.signatures import Signed, sign
from ingest.sources import Source
from schemas.errors import ConfigError, Unavailable

TIMEOUT_S = 30
USER_AGENT = "hooklake-send"


@dataclass(frozen=True, slots=True)
class SignedPost:
    """One request, complete but for the host it goes to."""

    path: str
    headers: dict[str, str]
    body: bytes


def sign_post(source: Source, *, event_type: str, body: bytes, now: datetime) -> SignedPost:
    """Signs with the source's first secret and names a fresh delivery.

    Raises ConfigError for a type that no header can carry, and where only the provider can sign.
    """
    scheme = source.scheme
    if scheme.uses_public_key and not (source.secrets or source.is_unsigned):
        # Of certificates that are fetched there is none yet to ask.
        raise only_the_provider_signs(scheme.name)
    headers = {"content-type": content_type(scheme), "user-agent": USER_AGENT}
    for place in scheme.event_type:
        if isinstance(place, Header):
            headers[place.name] = _header_value(split_type(event_type, scheme=scheme)[0])
    for place in parts_of(scheme.delivery_id):
        if isinstance(place, Header):
            headers[place.name] = str(uuid.uuid4())
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request(Headers(raw), body, public_url=source.public_url)
    signed = Signed({}, body) if source.is_unsigned else sign(scheme, request=request, secret=source.secrets[0], now=now)
    return SignedPost(f"/hooks/{source.tenant}/{source.name}", {**headers, **signed.headers}, signed.body)


def _header_value(event_type: str) -> str:
    if not (event_type.isascii() and event_type.isprintable()):
        raise ConfigError(f"TYPE {event_type!r} cannot stand in a header, where only visible ASCII may be; nothing was sent")
    return event_type


@dataclass(slots=True)
class Tally:
    """What became of the requests so far."""

    fixed: tuple[int, bytes] | None = None
    """Status and body of what the source answers in the place of receipts, if it does."""
    counts: Counter[str] = field(default_factory=Counter)
    event_ids: list[str] = field(default_factory=list)
    first_refusal: str = ""
    seconds: float = 0.0

    def add(self, status: int, body: bytes) -> None:
        if (status, body) == self.fixed:
            # Which says neither the event's id nor whether it was there before.
            self.counts["accepted"] += 1
            return
        try:
            answer = orjson.loads(body)
        except ValueError:
            answer = None
        if 200 <= status < 300 and isinstance(answer, dict):
            self.counts["duplicates" if answer.get("duplicate") else "accepted"] += 1
            self.event_ids.append(str(answer.get("event_id", "")))
            return
        self.counts["unavailable" if status >= 500 else "refused"] += 1
        error = answer.get("error") if isinstance(answer, dict) else None
        self.first_refusal = self.first_refusal or f"{status} {error.get('message') if isinstance(error, dict) else body[:100]!r}"


def post_all(posts: Iterable[SignedPost], *, source: Source, url: str, concurrency: int, on_answer: Callable[[], None]) -> Tally:
    """Sends everything over `concurrency` kept-alive connections; raises Unavailable when the receiver cannot be reached."""
    fixed = source.answering.fixed
    tally = Tally(fixed and (fixed[0], fixed[2]))
    turn = threading.Lock()
    remaining = iter(posts)
    began = time.perf_counter()

    def work() -> None:
        for status, body in _answers(_in_turn(remaining, turn=turn), url=url):
            with turn:
                tally.add(status, body)
                on_answer()

    with ThreadPoolExecutor(concurrency) as pool:
        for worker in [pool.submit(work) for _ in range(concurrency)]:
            worker.result()
    tally.seconds = time.perf_counter() - began
    return tally


def _in_turn(posts: Iterator[SignedPost], *, turn: threading.Lock) -> Iterator[SignedPost]:
    while True:
        with turn:
            post = next(posts, None)
        if post is None:
            return
        yield post


def _answers(posts: Iterator[SignedPost], *, url: str) -> Iterator[tuple[int, bytes]]:
    connection = _connection(url)
    try:
        for post in posts:
            try:
                yield _exchange(connection, post)
            except (http.client.HTTPException, OSError):
                # A kept-alive connection may have ended since; the delivery id makes sending again harmless.
                connection.close()
                yield _exchange_or_give_up(connection, post, url=url)
    finally:
        connection.close()


def _exchange_or_give_up(connection: http.client.HTTPConnection, post: SignedPost, *, url: str) -> tuple[int, bytes]:
    try:
        return _exchange(connection, post)
    except (http.client.HTTPException, OSError) as error:
        raise Unavailable(
            f"the receiver at {url} cannot be reached ({error}): start it with `hooklake up`, or name it with --url"
        ) from error


def _exchange(connection: http.client.HTTPConnection, post: SignedPost) -> tuple[int, bytes]:
    connection.request("POST", post.path, body=post.body, headers=post.headers)
    response = connection.getresponse()
    return response.status, response.read()


def _connection(url: str) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ConfigError(f"--url {url!r} is no address ({error}); nothing was sent") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise ConfigError(f"--url {url!r} is not like http://127.0.0.1:8080; nothing was sent")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname, port, timeout=TIMEOUT_S)
