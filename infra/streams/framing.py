"""Owns commands as a server reads them: how many arguments there are, and each of them behind its length. Pure.

hiredis packs whatever it is given, and takes four times as long for an event as whoever writes the lengths where the values are made.
So what is made for every webhook comes `Framed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import hiredis

from infra.streams.scripts import Argument


class Framed(NamedTuple):
    """The last arguments of a command, ready to be written."""

    many: int
    frames: list[bytes]
    """In any pieces: a large value need not be copied to stand behind its length."""


Command = Sequence[Argument | Framed]


def framed(value: Argument) -> bytes:
    """One argument behind its length."""
    raw = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else b"%d" % value
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def pack(command: Command) -> bytes:
    """Only its last argument may be framed already, and then stands for several."""
    *first, last = command
    if not isinstance(last, Framed):
        packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub allows one argument only
        return packed
    return b"".join([b"*%d\r\n" % (len(first) + last.many), *map(framed, first), *last.frames])  # type: ignore[arg-type]  # as it says
