"""Owns reading a body as JSON, for advice only: what the grammar allows is read, though no library takes all of it. Pure.

orjson is strict and fast, and refuses three things that JSON allows: escapes of half a character (`"\\ud800"`), numbers that no
double holds (`1e999`), and deep nesting. A sender that is told 400 does not send again, so the first two are read by the standard
library, with its own gifts (NaN, other encodings) refused. What is nested deeper than about a thousand levels stays refused.

Texts may have bytes that are no UTF-8, which senders with a database in Latin-1 do send: the event is kept as it came, and a text of
which nobody knows the letters leaves its field empty, as half a character does.
"""

from __future__ import annotations

import json
from typing import NoReturn

import orjson

LONGEST_INTEGER = 300


def parse(body: bytes | str) -> object:
    """The body's value; raises ValueError, and nothing else, when it is no JSON."""
    try:
        return orjson.loads(body)
    except ValueError:
        pass
    text = body.decode("utf-8", "surrogateescape") if isinstance(body, bytes) else body
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_integer)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _integer(digits: str) -> int | None:
    # Python refuses to read an integer of thousands of digits; no field of ours could hold it anyway.
    return int(digits) if len(digits) <= LONGEST_INTEGER else None
