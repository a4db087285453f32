"""Owns cutting a JSON array into its elements, as the bytes that were sent. Pure.

An element is a slice of the body and is never written anew: its digest, its numbers and its spaces are the sender's. What stands
between the slices is kept beside them, so that slices and gaps make the signed body again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from ingest.json_body import parse

_space = re.compile(r"[ \t\r\n]*").match


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


# Integers as floats: of thousands of digits, Python would refuse to make one. What the numbers are is not asked here.
_element_at = json.JSONDecoder(parse_int=float, parse_constant=_refuse).raw_decode


@dataclass(frozen=True, slots=True)
class Slice:
    """One element as it stood in the body; only the last one has something after it."""

    before: str
    payload: bytes
    after: str = ""


def slices_of(body: bytes) -> list[Slice]:
    """The elements of an array, in their order; raises ValueError when the body is no JSON array that has any."""
    parse(body)  # Strict where the scanner below is not: about what follows the array.
    # One character for each byte. All that structures JSON is ASCII, and no byte of a longer UTF-8 character is.
    text = body.decode("latin-1")
    try:
        return _cut(text, body=body)
    except (RecursionError, IndexError) as error:
        raise ValueError("the body is no JSON array of elements, or nested too deeply") from error


def _cut(text: str, *, body: bytes) -> list[Slice]:
    found: list[Slice] = []
    gap_from = 0
    at = _after_space(text, 0)
    if text[at] != "[":
        raise ValueError("the body is no JSON array")
    while text[at] != "]":
        start = _after_space(text, at + 1)
        _, end = _element_at(text, start)
        found.append(Slice(text[gap_from:start], body[start:end]))
        gap_from, at = end, _after_space(text, end)
    found[-1] = Slice(found[-1].before, found[-1].payload, text[gap_from:])
    return found


def _after_space(text: str, at: int) -> int:
    found = _space(text, at)
    assert found is not None  # also nothing is a space
    return found.end()
