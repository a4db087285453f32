"""Owns spans: their ids, their way through W3C `traceparent` strings, and the places they are written to."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from infra.clock import RandomDigits
from schemas.errors import Refused

TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
RECORDED = "01"
NOT_RECORDED = "00"


@dataclass(frozen=True, slots=True)
class Parent:
    """What a `traceparent` says."""

    trace_id: str
    span_id: str
    flags: str

    def context(self) -> SpanContext:
        return SpanContext(int(self.trace_id, 16), int(self.span_id, 16), is_remote=True, trace_flags=TraceFlags(int(self.flags, 16)))


def parse_traceparent(text: str) -> Parent | None:
    """None for anything but a valid one: a bad header begins a new trace and harms nothing."""
    found = TRACEPARENT.fullmatch(text)
    return Parent(*found.groups()) if found else None


class Span:
    """One piece of work; entering makes it the parent of spans that begin inside, leaving ends it."""

    __slots__ = ("_current", "_ids", "_parent", "_recorded", "_token")

    def __init__(
        self, parent: Parent | Span | str | None, *, current: ContextVar[Span | Begun | None], recorded: trace.Span | None = None
    ) -> None:
        """`parent` may be a traceparent that is parsed when somebody asks: most spans of a worker nobody asks."""
        self._current = current
        self._recorded = recorded
        self._parent = parent
        self._token: Token[Span | Begun | None] | None = None
        self._ids: tuple[str, str, str] | None = None

    @property
    def trace_id(self) -> str:
        return (self._ids or self._mint())[0]

    @property
    def span_id(self) -> str:
        return (self._ids or self._mint())[1]

    @property
    def flags(self) -> str:
        return (self._ids or self._mint())[2]

    def _mint(self) -> tuple[str, str, str]:
        parent = parse_traceparent(self._parent) if isinstance(self._parent, str) else self._parent
        if self._recorded is not None and (context := self._recorded.get_span_context()).is_valid:
            self._ids = f"{context.trace_id:032x}", f"{context.span_id:016x}", RECORDED
        elif parent is not None:
            self._ids = parent.trace_id, os.urandom(8).hex(), parent.flags
        else:
            minted = os.urandom(24).hex()
            self._ids = minted[:32], minted[32:], NOT_RECORDED
        return self._ids

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def set(self, **attributes: object) -> None:
        """Adds what became known on the way."""
        if self._recorded is not None:
            self._recorded.set_attributes(_simple(attributes))

    def __enter__(self) -> Span:
        self._token = self._current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        if self._token is not None:
            try:  # noqa: SIM105 - for every request, where `suppress` costs more than all the rest
                self._current.reset(self._token)
            except ValueError:
                pass  # It ended in another task than it began in, whose context never had it.
        if self._recorded is not None:
            self._end(self._recorded, error)

    def _end(self, recorded: trace.Span, error: BaseException | None) -> None:
        # A refusal is a right answer to a wrong request, not a fault of this process.
        if isinstance(error, Exception) and not isinstance(error, Refused):
            recorded.record_exception(error)
            recorded.set_status(Status(StatusCode.ERROR, type(error).__name__))
        recorded.end()


Begun = list[Span | str]
"""A span that goes on, or the traceparent that it will be made of."""


class Tracing:
    """Begins spans; without a provider they have ids to pass on and cost a few microseconds."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("hooklake") if provider else None
        # A traceparent becomes a span when somebody asks: of most of a worker's spans nobody does. In a list, so that whoever has a
        # copy of the context, as tasks have, finds the same span.
        self._current: ContextVar[Span | Begun | None] = ContextVar("hooklake_span", default=None)
        self._random = RandomDigits(48)
        self.records = provider is not None

    def span(self, name: str, *, traceparent: str, links: Sequence[str], attributes: Mapping[str, object]) -> AbstractContextManager[Span]:
        if self._tracer is None:
            running = None if traceparent else self._running()
            # Nobody records it: what runs inside a span need not be told apart from it.
            return nullcontext(running) if running is not None else Span(traceparent, current=self._current)
        parent: Parent | Span | None = parse_traceparent(traceparent) if traceparent else self._running()
        linked = [Link(found.context()) for found in map(parse_traceparent, links) if found]
        context = trace.set_span_in_context(NonRecordingSpan(_remote(parent))) if parent else Context()
        recorded = self._tracer.start_span(name, context=context, links=linked, attributes=_simple(attributes))
        return Span(parent, current=self._current, recorded=recorded)

    def new_traceparent(self) -> str:
        random = self._random.take()
        return f"00-{random[:32]}-{random[32:]}-{NOT_RECORDED}"

    def go_on(self, traceparent: str) -> None:
        """Makes an unrecorded span the running one, until the next: the least that a trace can cost."""
        self._current.set([traceparent])

    def leave(self) -> None:
        """Whatever went on here is over: the next span belongs to no trace."""
        self._current.set(None)

    def _running(self) -> Span | None:
        running = self._current.get()
        if not isinstance(running, list):
            return running
        if isinstance(begun := running[0], str):
            begun = running[0] = Span(begun or None, current=self._current)
        return begun

    def ids(self) -> dict[str, str]:
        """The ids of the span that runs here, for log lines."""
        running = self._running()
        return {"trace_id": running.trace_id, "span_id": running.span_id} if running else {}

    def shutdown(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()


def open_tracing(service: str, *, traces: str, home: Path) -> Tracing:
    """`traces` as in the settings: `off`, `file:NAME` under the home, or an OTLP/HTTP address."""
    if traces == "off":
        return Tracing(None)
    # ALWAYS_ON: whether we record is our operator's decision, not that of a sender's header.
    provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource({"service.name": service}), shutdown_on_exit=False)
    exporter = SpanLines(home / traces.removeprefix("file:"), service=service) if traces.startswith("file:") else _otlp(traces)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    return Tracing(provider)


class SpanLines(SpanExporter):
    """Appends spans to a file, one JSON object per line; a file that cannot be written costs the spans only."""

    def __init__(self, path: Path, *, service: str) -> None:
        self._path = path
        self._service = service

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(json.dumps(_described(span, service=self._service), default=repr) + "\n" for span in spans)
        try:
            # One write with O_APPEND: several processes may share the file and keep whole lines.
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, lines.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            # Once in a while, by the guard that all library messages pass: a missing trace is easily taken for missing traffic.
            logging.getLogger(__name__).warning("telemetry.traces: %s cannot be written (%s); spans are lost", self._path, error.strerror)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        return

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        return True


def _otlp(address: str) -> SpanExporter:
    # Imported here: it costs a quarter of a second that a process without an address need not pay.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    endpoint = address if urlsplit(address).path.strip("/") else address.rstrip("/") + "/v1/traces"
    return OTLPSpanExporter(endpoint=endpoint, timeout=2)


def _described(span: ReadableSpan, *, service: str) -> dict[str, object]:
    context, start_ns, end_ns = span.get_span_context(), span.start_time or 0, span.end_time or 0
    return {
        "trace_id": f"{context.trace_id:032x}" if context else "",
        "span_id": f"{context.span_id:016x}" if context else "",
        "parent_id": f"{span.parent.span_id:016x}" if span.parent else "",
        "name": span.name,
        "service": service,
        "started_at": datetime.fromtimestamp(start_ns / 1e9, tz=UTC).isoformat(),
        "duration_ms": round((end_ns - start_ns) / 1e6, 3),
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
        "links": [f"{link.context.trace_id:032x}-{link.context.span_id:016x}" for link in span.links],
    }


def _remote(parent: Parent | Span) -> SpanContext:
    return Parent(parent.trace_id, parent.span_id, parent.flags).context()


def _simple(attributes: Mapping[str, object]) -> dict[str, str | bool | int | float]:
    return {key: value if isinstance(value, str | bool | int | float) else str(value) for key, value in attributes.items()}
