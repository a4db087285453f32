"""Owns putting events on streams quickly: in their wire form, by plain XADD, since appending is not what is measured here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from infra.streams.entries import LOG_FIELDS, encode
from infra.streams.scripts import Argument
from tests.events import an_event

BODY_BYTES = 1800
AT_ONCE = 1000


def a_body() -> bytes:
    """JSON of the size that all contenders get."""
    return b'{"ref": "' + b"x" * (BODY_BYTES - 11) + b'"}'


def wire_form(number: int | None = None, **changes: Any) -> list[Argument]:
    """Fields and values of an event, as a receiver's append would leave them; `changes` are those of `an_event`.

    Without a number the log's housekeeping passes it over; with one that does not follow its neighbour's, it would look for a loss.
    """
    values: tuple[Argument, ...] = ("0" * 8, number or "", 0, 0)
    log_fields = itertools.chain.from_iterable(zip(LOG_FIELDS, values, strict=True))
    return [*encode(an_event(**{"payload": a_body(), **changes})), *(log_fields if number else ())]


def wire_forms(count: int, **changes: Any) -> Iterator[list[Argument]]:
    """Of `count` different events."""
    return (wire_form(**changes) for _ in range(count))


def add_entries(client: redis.Redis, *, streams: Sequence[str], count: int, **changes: Any) -> None:
    """Spreads `count` events over the streams in turn, each stream numbered without gaps."""
    pipeline: Any = client.pipeline(transaction=False)
    lengths: list[Any] = [client.xlen(stream) for stream in streams]
    for turn in range(count):
        lengths[at := turn % len(streams)] += 1
        pipeline.execute_command("XADD", streams[at], "*", *wire_form(lengths[at], **changes))
        if turn % AT_ONCE == AT_ONCE - 1 or turn == count - 1:
            pipeline.execute()
