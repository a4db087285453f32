"""Owns the receiver's HTTP side: its routes, and the one table that turns an outcome into an answer.

`POST /hooks/{tenant}/{source}` is all that a receiver does all day: one that is here whole is answered past ASGI (`direct`), any
other by a plain ASGI callable; the rest is Starlette. Errors are `{"error": {"code", "message"}}`. An unexpected error is ours, so
it is a 503, never a 500 or 4xx.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from infra.running.pulse import Pulse
from infra.running.serving_limits import PULSE, WHOLE_BODY
from ingest.answers import Answer, json_headers
from ingest.notes import Notes
from ingest.proxies import Proxies
from ingest.receive import Post, Receiver
from ingest.shortcut import Shortcut
from schemas.errors import (
    BadSignature,
    BodyTooLarge,
    HeadersTooLarge,
    HooklakeError,
    MalformedRequest,
    MethodNotAllowed,
    Overloaded,
    OverRate,
    Refused,
    SchemaMismatch,
    StaleTimestamp,
    TooSlow,
    Unavailable,
    UnknownSource,
    UnsupportedEncoding,
)

RETRY_AFTER_S = 5
STATUSES: Mapping[type[HooklakeError], int] = MappingProxyType(
    {
        Refused: 400,
        MalformedRequest: 400,
        BadSignature: 401,
        StaleTimestamp: 401,
        UnknownSource: 404,
        MethodNotAllowed: 405,
        TooSlow: 408,
        BodyTooLarge: 413,
        UnsupportedEncoding: 415,
        SchemaMismatch: 422,
        OverRate: 429,
        HeadersTooLarge: 431,
        Unavailable: 503,
    }
)
# What the sender is told where the reason is nobody's business but ours.
SIGNATURE_MESSAGE = "no active secret of this source made the signature of this request"
UNAVAILABLE_MESSAGE = "the event cannot be stored just now; nothing is wrong with the request, so send it again"

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


class App:
    """The ASGI application of a receiver."""

    def __init__(self, receiver: Receiver, *, lifespan: Lifespan | None = None) -> None:
        self._receiver = receiver
        self.proxies = Proxies(receiver.settings.trusted_proxies)
        self._notes = Notes(receiver.telemetry.log, clock=receiver.clock)
        self.direct = Shortcut(receiver, proxies=self.proxies, refuse=self._refusal)
        """Answers what need not take ASGI's way."""
        self._operations = Starlette(
            routes=[Route("/healthz", self._healthz), Route("/readyz", self._readyz)],
            exception_handlers={HTTPException: _no_such_route, Exception: _unexpected},
            lifespan=lifespan,
        )
        # `/healthz/` is no path of ours: a redirect would be built from the Host that a stranger sent.
        self._operations.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/hooks/"):
            status, headers, body = await self._answer(scope, receive)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await self._operations(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        try:
            return await self._receiver.receive(_post_of(scope, receive, proxies=self.proxies))
        except (Exception, asyncio.CancelledError) as error:
            return self._refusal(error, scope["path"], _remote_address(scope, proxies=self.proxies))

    def _refusal(self, error: BaseException, path: str, remote_address: str) -> Answer:
        """The edge: what ends a request that is no answer of ours."""
        if isinstance(error, HooklakeError):
            self._notes.refused(error, path=path, remote_address=remote_address)
        else:
            # A bug of ours, or a receiver that stops before the log has answered. The sender is right in
            # either case, and a repeated delivery is recognised; a 500 would make some senders give up on it.
            self._notes.failed(error, path=path)
            error = Unavailable(UNAVAILABLE_MESSAGE)
        # By code only: a stranger chooses the path, and would choose how many series there are.
        self._receiver.telemetry.refused.add(1, {"code": error.code})
        return refused(error)

    async def _healthz(self, _: Request) -> Response:
        return _response({"status": "alive"}, status=200)

    async def _readyz(self, _: Request) -> Response:
        """Ready means that an event would be kept now, on the log or in the spool."""
        if self._receiver.keeper.is_ready:
            return _response({"status": "ready"}, status=200)
        return _error_response(Unavailable("neither the log nor a spool takes events just now"))


def _post_of(scope: Scope, receive: Receive, *, proxies: Proxies) -> Post:
    # The path as it was sent: unescaped, `%2F` would become a separator.
    parts = scope["raw_path"].decode("latin-1").split("/")
    if len(parts) != 4:
        raise UnknownSource("the path is not /hooks/{tenant}/{source}")
    return Post(
        method=scope["method"],
        tenant=parts[2],
        source=parts[3],
        raw_headers=scope["headers"],
        remote_address=_remote_address(scope, proxies=proxies),
        receive=receive,
        query=scope["query_string"].decode("latin-1"),
        pulse=scope.get(PULSE) or Pulse(),
        has_whole_body=WHOLE_BODY in scope,
    )


def _remote_address(scope: Scope, *, proxies: Proxies) -> str:
    client = scope.get("client")
    return proxies.sender(str(client[0]), raw_headers=scope["headers"]) if client else ""


def refused(error: HooklakeError) -> Answer:
    """The answer that the table gives to an error, with the headers its status asks for."""
    status = status_of(error)
    body = orjson.dumps({"error": {"code": error.code, "message": message_of(error)}})
    headers = json_headers(body)
    if isinstance(error, OverRate) or status == STATUSES[Unavailable]:
        headers = (*headers, (b"retry-after", str(getattr(error, "retry_after_s", RETRY_AFTER_S)).encode()))
    if isinstance(error, MethodNotAllowed):
        headers = (*headers, (b"allow", error.allow.encode()))
    if isinstance(error, TooSlow | MalformedRequest):
        # Where the request ends is in doubt, or its end may never come.
        headers = (*headers, (b"connection", b"close"))
    return status, headers, body


def status_of(error: HooklakeError) -> int:
    """By the nearest class in the table; an error that is in no branch of it is ours."""
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), STATUSES[Unavailable])


def message_of(error: HooklakeError) -> str:
    """What the sender may know: not which signature fault it was, and nothing about our insides."""
    if isinstance(error, BadSignature | StaleTimestamp):
        return SIGNATURE_MESSAGE
    return str(error) if isinstance(error, Refused | Overloaded) else UNAVAILABLE_MESSAGE


def _response(content: object, *, status: int) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type="application/json")


def _error_response(error: HooklakeError) -> Response:
    status, headers, body = refused(error)
    return Response(body, status_code=status, headers={name.decode(): value.decode() for name, value in headers})


async def _no_such_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == STATUSES[MethodNotAllowed]:
        return _error_response(MethodNotAllowed("this path is read with GET", allow=(error.headers or {}).get("allow", "GET")))
    return _error_response(UnknownSource("there is no such path; webhooks go to /hooks/{tenant}/{source}"))


async def _unexpected(_: Request, __: Exception) -> Response:
    return _error_response(Unavailable(UNAVAILABLE_MESSAGE))
