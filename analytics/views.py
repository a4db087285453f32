"""Owns the views: typed columns of what each provider sends, one file of SQL each in `views/`, over the table `events`.

A file begins with a comment that says what its rows are; above each column stands a comment that says what that is. A payload is
whatever its sender wrote, so everything is read with `try_`: what is missing or of another type is NULL, and never an error.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from importlib import resources

_COMMENT = re.compile(r"^\s*-- (.*)$")
_NAME = re.compile(r"(\w+),?\s*$")


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column by its name; its type is what the SQL makes of it."""

    name: str
    comment: str


@dataclass(frozen=True, slots=True)
class View:
    """One file of `views/`."""

    name: str
    comment: str
    columns: tuple[ViewColumn, ...]
    sql: str


def load_views() -> tuple[View, ...]:
    """All views, by name."""
    files = sorted(resources.files("analytics").joinpath("views").iterdir(), key=lambda file: file.name)
    return tuple(parse_view(file.name.removesuffix(".sql"), file.read_text()) for file in files if file.name.endswith(".sql"))


def parse_view(name: str, sql: str) -> View:
    """Pure. A comment belongs to the column whose name ends the line below it."""
    first, *lines = sql.splitlines()
    pairs = [(found[1], _NAME.search(below)) for line, below in itertools.pairwise(lines) if (found := _COMMENT.match(line))]
    columns = tuple(ViewColumn(named[1], comment) for comment, named in pairs if named)
    return View(name, first.removeprefix("-- "), columns, sql)
