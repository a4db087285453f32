"""Owns printing to people and machines: tables as wide as the terminal, uncut into a pipe, JSON, and foreign text that cannot steer a
terminal."""

from __future__ import annotations

import itertools
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

UNCUT = 10_000
# Controls, formats (which turn the direction of text), surrogates, private use and line separators.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def table_console() -> Console:
    """For tables on stdout; markup in foreign text stays text."""
    # A pipe has no width: nothing is cut there.
    width = None if sys.stdout.isatty() else UNCUT
    return Console(width=width, markup=False, highlight=False, emoji=False)


def print_list(
    found: Iterator[dict[str, Any]], *, limit: int, table: Callable[[list[dict[str, Any]]], Table], nothing: str, as_json: bool
) -> None:
    """Up to `limit` of them, and for people whether there are more; `found` should go on beyond it by one."""
    rows = list(itertools.islice(found, limit))
    if as_json:
        print_json(rows, indent=True)
        return
    console = table_console()
    console.print(table(rows) if rows else nothing)
    if next(found, None) is not None:
        console.print("... and more; raise --limit to see them")


def print_json(value: object, *, indent: bool = False) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else 0).decode() + "\n")


def visible(text: str) -> str:
    r"""The text with everything that could act on a terminal written out, such as \x1b."""
    return "".join(_escaped(character) if is_unseen(character) else character for character in text)


def is_unseen(character: str) -> bool:
    """Control and format characters, which act on a terminal or hide in it."""
    return unicodedata.category(character) in UNSEEN


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
