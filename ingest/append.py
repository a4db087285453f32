"""Appends one event from a shell, now or at a later time: `hooklake append`. Signed by nobody; the operator's own word."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer

from infra.clock import Clock, EventIds
from infra.running.cli import run
from infra.running.moments import operator_name, parse_moment
from infra.running.screen import is_unseen
from infra.settings import Settings, load_settings
from infra.streams.probe import refuse_unfit_log
from infra.streams.stream import EventStream
from ingest.sources import Source, Sources
from ingest.windows import windows_of
from schemas.errors import ConfigError
from schemas.event import AuthContext, StreamEvent
from schemas.receipt import Receipt

SCHEME = "shell"
NO_BODY = b"{}"

cli = typer.Typer(add_completion=False)


@cli.command()
def main(
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="The event's whole type, such as `github.push`.")],
    tenant: Annotated[str, typer.Option(help="The tenant that the event belongs to.")] = "demo",
    source: Annotated[str, typer.Option(help="One of the tenant's sources; may be left out where there is only one.")] = "",
    file: Annotated[str, typer.Option(metavar="PATH", help="The body: a file, or `-` for what is piped in; `{}` unless given.")] = "",
    key: Annotated[str, typer.Option(help="The ordering key.")] = "",
    delivery_id: Annotated[str, typer.Option(help="Appending the same id and body again is recognised as a duplicate.")] = "",
    deliver_at: Annotated[str, typer.Option(help="Let it wait until then: ISO 8601, or `+10m` from now.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Appends one event to the log; returns when it is synced. Nothing is verified, so the event says that it came from a shell."""
    settings, clock = load_settings(), Clock()
    found = source_of(Sources.from_settings(settings), tenant=tenant, source=source)
    due_at = due(deliver_at, now=clock.now()) if deliver_at else None
    event = shell_event(found, event_type=event_type, body=_body(file), key=key, delivery_id=delivery_id, clock=clock)
    refuse_unfit_log(settings.log, home=settings.home)
    receipt = asyncio.run(_append(settings, event=event, deliver_at=due_at))
    print(_as_json(receipt) if as_json else sentence(receipt, deliver_at=due_at))


def source_of(sources: Sources, *, tenant: str, source: str) -> Source:
    """The source that is named, or the tenant's only one; raises ConfigError."""
    names = sorted(name for owner, name in sources.by_route if owner == tenant)
    if not source and len(names) > 1:
        raise ConfigError(f"tenants.{tenant} has several sources ({', '.join(names)}): say which one with --source; nothing was appended")
    return sources.named(tenant, source=source or (names[0] if names else ""))


def due(text: str, *, now: datetime) -> datetime:
    """When to deliver; a time that has passed means now, but `10m` was surely meant to be `+10m`. Raises ConfigError."""
    moment = parse_moment(text, now=now, option="--deliver-at")
    if re.fullmatch(r"[0-9]+[smhd]", text):
        raise ConfigError(f"--deliver-at {text} would be in the past: write +{text}; nothing was appended")
    return moment


def shell_event(source: Source, *, event_type: str, body: bytes, key: str, delivery_id: str, clock: Clock) -> StreamEvent:
    """The event as the log takes it; raises ConfigError for what no receiver would have accepted."""
    if not event_type.strip() or any(is_unseen(character) for character in event_type):
        raise ConfigError(f"{event_type!r} is no type of an event: write one such as github.push; nothing was appended")
    if len(body) > source.max_body_bytes:
        raise ConfigError(f"the body has {len(body)} bytes, and {source.max_body_bytes} are allowed for this source; nothing was appended")
    return StreamEvent(
        id=EventIds(clock).mint(),
        tenant_id=source.tenant,
        source=source.name,
        event_type=event_type,
        delivery_id=delivery_id,
        key=key,
        priority=source.priority,
        timestamp=clock.now(),
        payload=body,
        body_sha256=hashlib.sha256(body).hexdigest(),
        content_type=_content_type(body),
        auth_context=AuthContext(scheme=SCHEME, verified_at=clock.now(), remote_address=operator_name()),
    )


def sentence(receipt: Receipt, *, deliver_at: datetime | None) -> str:
    if receipt.duplicate:
        return f"{receipt.event_id} was accepted before; nothing was appended"
    if receipt.scheduled:
        return f"{receipt.event_id} is accepted, and waits until {deliver_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{receipt.event_id} is appended" + (" (another body came with this delivery id before)" if receipt.conflict else "")


async def _append(settings: Settings, *, event: StreamEvent, deliver_at: datetime | None) -> Receipt:
    stream = EventStream.open(settings.log, home=settings.home, windows=windows_of(settings))
    try:
        return await stream.append(event, deliver_at=deliver_at)
    finally:
        await stream.close()


def _as_json(receipt: Receipt) -> str:
    names = ("event_id", "duplicate", "conflict", "scheduled", "stream", "entry_id")
    return orjson.dumps({name: getattr(receipt, name) for name in names}).decode()


def _body(file: str) -> bytes:
    if not file:
        return NO_BODY
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"--file {file} cannot be read ({error.strerror}); nothing was appended") from error


def _content_type(body: bytes) -> str:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return "application/octet-stream"
    return "application/json"


if __name__ == "__main__":
    run(cli)
