"""Owns what every table keeps of an entry that cannot be read: its bytes, its place, and why. Pure."""

from __future__ import annotations

import base64

import orjson

from infra.streams.entries import Entry, Fields
from infra.streams.positions import id_order

LATEST_MS = 4_102_444_800_000  # The year 2100: a date beyond it is a broken clock, and would be a partition of its own.


def time_of(entry: Entry) -> int:
    """The log's own time of the append, in ms. Somebody may have chosen an entry id that is no time at all."""
    return min(id_order(entry.id)[0], LATEST_MS - 1)


def error_text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def raw_entry(fields: Fields) -> bytes:
    """A JSON object: field names to base64 texts of their values."""
    return orjson.dumps({name.decode("utf-8", "backslashreplace"): base64.b64encode(value).decode() for name, value in fields.items()})


def text_of(value: bytes | None) -> str | None:
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError:
        return None


def number_of(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) <= 18 else None
