"""Owns one client's connection: uvicorn's, with an end to everything that a client could drag out, and a short way for what is whole.

A request whose last byte came with its first, as most do, takes the way of `direct.py`. Every other one is the ASGI application's
as soon as its head is here, so that whatever its body may cost is bounded there.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from infra.running.corking import Corked
from infra.running.direct import Arrived, Direct, Exchange, HeaderLines
from infra.running.patience import Limited, Patient
from infra.running.queueing import Flow, Queue, Queues
from infra.running.refusal import QueuedRefusal, refusal
from infra.running.serving_limits import PULSE, WHOLE_BODY
from infra.running.shares import Shares
from schemas.errors import HeadersTooLarge, MalformedRequest, Overloaded, Refused, TooSlow

# How long the rest of a request is read after its answer. Closing before would reset the connection under the answer.
LINGER_S = 2.0
# So many connections above the limit are waited for, which takes a file each, and no longer than this.
AWAITED_ABOVE_LIMIT = 12
AWAITED_FOR_S = 1.0
# Of what came together with the end of another request nobody knows how much is head: more than any head may have.
UNKNOWN_BYTES = 1 << 62


class Serving(Limited):
    """What all connections of a server know about it."""

    direct: Direct | None
    shares: Shares
    queues: Queues
    is_draining: bool
    is_patient: bool
    """It drains, and idle connections have as long as ever."""


class Connection(Patient):
    """One client's connection: uvicorn's, with an end to everything that a client could drag out."""

    config: Serving

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reads_head = True
        self._head_bytes = 0
        self._reads_body = False
        self._too_many = ""
        """Why there is no room for it; empty where there is."""
        self._is_held = False
        """The head is here, and nobody knows yet which way the request goes."""
        self._body: list[bytes] = []
        self._chunk_bytes = 0
        """How much came at once with the end of the head; unknown behind the end of another request."""
        self._begun: RequestResponseCycle | None = None
        """What the application answers now; the newest request is `cycle`, which may wait behind it."""
        self._waiting = Queue(self.config.queues)
        self._read_bytes = 0
        """How much came at once."""
        self._may_not_wait = False
        """There is no room for the newest behind the others."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport, waiting=self.pipeline)
        # uvicorn waits for ever for the first byte.
        self._arm(self.config.limits.head_timeout_ms / 1000)
        limits = self.config.limits
        above_share = self.config.shares.enter(self._address)
        if (above := len(self.connections) - limits.max_connections) > 0:
            self._leave(f"{limits.max_connections} connections are open here already", above=above)
        elif above_share:
            self._leave(f"{limits.share} connections from this address are open here already", above=above_share)

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _leave(self, why: str, *, above: int) -> None:
        """Waits for the first bytes before it says 503, as far as there is room: who is answered before he has asked may miss it."""
        self._too_many = why
        if above > AWAITED_ABOVE_LIMIT:
            self._refuse_connection()
        else:
            self._arm(AWAITED_FOR_S)

    def _refuse_connection(self) -> None:
        if not self.transport.is_closing():
            self._refuse(Overloaded(f"{self._too_many}; send it again", retry_after_s=1), status=503)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.config.shares.leave(self._address)
        self.pipeline.clear()  # Of what waits nobody would hear.
        self._waiting.clear()
        # uvicorn tells the newest request only. An earlier one would be written to a connection that is gone, which is an error.
        if self._begun is not None:
            self._begun.disconnected = True
            self._begun.message_event.set()
            self._begun = None
        # What took the short way knows us, too: both would be kept until somebody looks for garbage, which is seldom.
        self.cycle = None  # type: ignore[assignment]  # as before the first request

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn ends every connection then, and with it the answer.
        """Keeps the connection for the answers that are due: who has said everything may still listen."""
        is_due = self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None before the first request.
        if not is_due or self._reads_body:
            self._must_be_read()  # It is closed, but not before what was written is read.
            return False
        self._disarm()  # Of what it began to say after that nobody will hear the end.
        self.cycle.keep_alive = False  # The newest, which is answered last.
        return True

    def data_received(self, data: bytes) -> None:
        if self._too_many:
            self._refuse_connection()
            return
        self._chunk_bytes = self._read_bytes = len(data)
        super().data_received(data)
        if self._is_held and not self.transport.is_closing():
            self._take_the_long_way()
        if self._reads_head and not self.transport.is_closing():
            self._head_goes_on()
        elif not self._reads_body and self.cycle is not None and self.cycle.response_complete:  # type: ignore[redundant-expr]
            self._rest()  # It brought the rest of what was answered before, or nothing at all.

    def _head_goes_on(self) -> None:
        """The parser keeps an unfinished header in memory, however long it is: count here, and set a deadline."""
        # What may be another request's, up to its last byte, is not held against this one.
        self._head_bytes += self._chunk_bytes if self._chunk_bytes != UNKNOWN_BYTES else 1
        if self._head_bytes > self.config.limits.max_head_bytes:
            self._refuse(HeadersTooLarge("the request's headers are longer than this server reads"), status=431)
        elif self._deadline is None:
            self._arm(self.config.limits.head_timeout_ms / 1000)

    def on_message_begin(self) -> None:
        # What uvicorn does here, and at each step up to the body, it does when the request takes the long way.
        self.url, self.headers, self._body = b"", [], []
        self._reads_head = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._reads_head = False
        self._reads_body = True
        self._disarm()
        self._is_held = True

    def on_body(self, body: bytes) -> None:
        if self._is_held:
            self._body.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._reads_body = False
        self._disarm()
        if self._is_held:
            if self._takes_the_short_way():
                return
            self._begin_cycle()
            # Most bodies come with their head, before the application begins: it need not set a deadline for them.
            self.scope[WHOLE_BODY] = True  # type: ignore[literal-required]
        self._chunk_bytes = UNKNOWN_BYTES
        super().on_message_complete()

    def _takes_the_short_way(self) -> bool:
        """Begins to answer a request that is whole, unless it has to wait for an answer to the one before it."""
        is_first = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None before the first request.
        if is_first and self.transport.is_closing():
            self._is_held = False  # It was sent behind one whose answer ended the connection.
            return True
        # Who reads no answers is answered by the application, which waits for him.
        if self.config.direct is None or not is_first or self.flow.write_paused:
            return False
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return False
        keep_alive = self.parser.should_keep_alive() and not self.config.is_draining
        exchange, before = Exchange(self, transport=self.transport, keep_alive=keep_alive), self.cycle
        self.cycle = cast(RequestResponseCycle, exchange)
        body = b"".join(self._body)
        arrived = Arrived(self.url, self.headers, body, self._address, self._head_bytes + self._chunk_bytes - len(body))
        if self.config.direct(arrived, exchange):
            self._is_held, self._body, self._chunk_bytes = False, [], UNKNOWN_BYTES
            return True
        self.cycle = before
        return False

    def _take_the_long_way(self) -> None:
        try:
            self._begin_cycle()
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _begin_cycle(self) -> None:
        """Hands the request to the application, with what is here of its body; raises HttpParserError when its target is none."""
        url, headers = self.url, self.headers
        path = httptools.parse_url(url).path
        if path is None or not path.isascii():  # type: ignore[redundant-expr]  # uvicorn takes both for granted
            raise httptools.HttpParserInvalidURLError("the target has no path, or one that is not ASCII")
        if self._has_unanswered_before() and not self._waiting.enter(read_bytes=self._read_bytes):
            self._may_not_wait = True
            raise httptools.HttpParserError("it may not wait")  # The parser stops at nothing else.
        self._is_held = False
        super().on_message_begin()
        self.url = url
        self.headers += headers
        self.scope[PULSE] = self.config.pulse  # type: ignore[literal-required]
        self.expect_100_continue = [value.lower() for name, value in headers if name == b"expect"] == [b"100-continue"]
        super().on_headers_complete()
        # Its application begins in the next turn of the event loop, so nothing was written yet.
        # Of an answer to HEAD uvicorn writes the head only, which must not wait for anything.
        if self.scope["method"] != "HEAD":
            self.cycle.transport = cast(asyncio.Transport, Corked(self.transport))
        if self.config.is_draining:
            self.cycle.keep_alive = False
        for body in self._body:
            super().on_body(body)
        self._body = []

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._begun = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def default_headers(self) -> HeaderLines:
        """What every answer has: the date."""
        return tuple(self.server_state.default_headers)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._must_be_read()
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._rest()
        if not self.pipeline:
            self._waiting.clear()
        self.flow.resume_reading()
        if self._reads_body and self.cycle.response_complete and not self.transport.is_closing():
            # Answered before its end, as a body that is too large: read on for a moment and drop it.
            self._arm(LINGER_S)

    def shutdown(self) -> None:
        """One that brings a request from now on is closed with its answer; one that brings none is closed in time."""
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]  # None before the first request.
            # Of requests that were sent without waiting for answers, the newest: it is answered last.
            self.cycle.keep_alive = False
        elif not self.config.is_patient:
            self._arm(self.config.limits.drain_ms / 1000)

    def send_400_response(self, msg: str) -> None:
        if self._may_not_wait:
            said = "too many requests were sent on this connection before the first was answered; send this one again"
            self._refuse(Overloaded(said, retry_after_s=1), status=503)
        else:
            self._refuse(MalformedRequest(msg), status=400)

    def _unsupported_upgrade_warning(self) -> None:
        """Said by the application, which refuses such a request."""

    def _end(self) -> None:
        self._deadline = None
        if self.flow.read_paused:
            # Requests before it wait for answers, and we have not read on: its time begins again.
            self._arm(self.config.limits.head_timeout_ms / 1000)
        elif self._reads_head and self._head_bytes and not self.transport.is_closing():
            self._refuse(TooSlow("the request's headers did not arrive in time"), status=408)
        else:
            self._close()

    def _refuse(self, error: Refused | Overloaded, *, status: int) -> None:
        """Answers what is no request for the application, after all before it; the connection ends, since its framing is lost."""
        said = refusal(error, status=status)
        if self._has_unanswered_before():
            self._queue(QueuedRefusal(said, transport=self.transport, close=self._close))
        else:
            self.transport.write(said)
            self._close()

    def _has_unanswered_before(self) -> bool:
        """Whether requests before the one that is read now wait for answers; theirs are the first that their sender will read."""
        if self._reads_body and not self._is_held:
            return bool(self.pipeline)  # It has a cycle itself, the newest.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None before the first request.

    def _queue(self, queued: QueuedRefusal) -> None:
        if self._reads_body and not self._is_held:
            self.pipeline.popleft()  # What is refused was waiting for its turn, and was not begun.
        self._disarm()
        self._reads_head = self._reads_body = self._is_held = False
        self.cycle = cast(RequestResponseCycle, queued)
        self.parser = cast(httptools.HttpRequestParser, queued)  # Whatever else is sent is dropped.
        self.pipeline.appendleft((self.cycle, self.app))
