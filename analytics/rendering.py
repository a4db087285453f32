"""Owns how values of a table are shown: to a terminal without letting them speak to it, and as JSON. Pure.

Payloads, headers and names are written by strangers. An escape sequence among them could rewrite the screen or the clipboard.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from infra.running.screen import is_unseen, visible


def as_text(value: object) -> str:
    """One line for a cell of a table on a terminal."""
    if value is None:
        return "NULL"
    plain = to_plain(value)
    return visible(plain if isinstance(plain, str) else orjson.dumps(plain).decode())


def as_json(row: Row) -> str:
    """One row as one line of JSON that could be printed on a terminal and still says exactly what the row says."""
    line = orjson.dumps({name: to_plain(value) for name, value in zip(row.__fields__, row, strict=True)}, default=str).decode()
    return "".join(_escaped_in_json(character) if is_unseen(character) else character for character in line)


def as_csv(value: object) -> str:
    """One cell of CSV: text in quotes, numbers as they are, NULL as nothing."""
    if value is None:
        return ""
    plain = to_plain(value)
    if isinstance(plain, bool | int | float):
        return orjson.dumps(plain).decode()
    text = plain if isinstance(plain, str) else orjson.dumps(plain).decode()
    return '"' + text.replace('"', '""') + '"'


def to_plain(value: object) -> Any:
    """What JSON can say: bytes become text where they are UTF-8, else base64; a VARIANT is the JSON that it is."""
    match value:
        case VariantVal():
            return orjson.Fragment(value.toJson())
        case bytes() | bytearray():
            return _bytes_as_text(bytes(value))
        case datetime():
            return value.replace(tzinfo=value.tzinfo or UTC).isoformat()
        case date() | Decimal():
            return str(value)
        case Row():
            return {name: to_plain(inner) for name, inner in zip(value.__fields__, value, strict=True)}
        case dict():
            return {str(to_plain(key)): to_plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [to_plain(inner) for inner in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _escaped_in_json(character: str) -> str:
    # JSON knows four digits only, and writes what needs more as two surrogates: what json does for all that is not ASCII.
    return json.dumps(character)[1:-1]


def _bytes_as_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
