"""Owns reading the shape of a payload, as Spark's `schema_of_variant` writes it, into the paths of its members. Pure.

Names of members are texts that a sender chose. Where they are data themselves (an address, a file's name, one of hundreds of keys), `*`
stands for them: they would be no schema, and might be somebody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DEEPEST = 6
MOST_MEMBERS = 100
_PLAIN_NAME = re.compile(r"[A-Za-z_$@][A-Za-z0-9_$:.-]{0,63}")
# Numbers, UUIDs and digests are data.
_LOOKS_LIKE_DATA = re.compile(r"[0-9a-f]{8,}|[0-9]{4,}|.*[0-9a-f]{8}-[0-9a-f]{4}-.*")
_WORD = re.compile(r"[A-Z_]+(\([0-9, ]*\))?")
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_BRACKET = re.compile(_QUOTED.pattern + "|[<>]")
_TYPES = {"BIGINT": "integer", "DOUBLE": "number", "FLOAT": "number", "VOID": "null", "VARIANT": "mixed"}
Shape = str | list["Shape"] | dict[str, "Shape"]


def paths_of(schema: str) -> dict[tuple[str, str], None]:
    """Path and type of every member, each once: `OBJECT<a: ARRAY<STRING>>` has `a`, an array, and `a[]`, a string."""
    shape, rest = _parse(schema.strip(), depth=0)
    if rest:
        raise ValueError(f"{schema[:200]!r} goes on after its end")
    return dict.fromkeys(_paths(shape, at="", depth=0))


def _paths(shape: Shape, *, at: str, depth: int) -> Iterator[tuple[str, str]]:
    yield (at or "$", type_of(shape))
    if depth == DEEPEST:
        return
    if isinstance(shape, list):
        # An empty array looks like one of nulls, and says nothing about elements.
        if shape[0] != "VOID":
            yield from _paths(shape[0], at=f"{at}[]", depth=depth + 1)
    elif isinstance(shape, dict):
        is_map = len(shape) > MOST_MEMBERS
        for name, member in shape.items():
            shown = "*" if is_map or not is_plain(name) else name
            yield from _paths(member, at=f"{at}.{shown}" if at else shown, depth=depth + 1)


def is_plain(name: str) -> bool:
    """Whether a member's name belongs to the schema, and is not data itself."""
    return _PLAIN_NAME.fullmatch(name) is not None and "@" not in name[1:] and _LOOKS_LIKE_DATA.fullmatch(name.lower()) is None


def type_of(shape: Shape) -> str:
    if isinstance(shape, list):
        return "array"
    if isinstance(shape, dict):
        return "object"
    if shape.startswith("DECIMAL"):
        return "integer" if shape.rstrip(")").endswith(",0") else "number"
    return _TYPES.get(shape, shape.lower())


def _parse(text: str, *, depth: int) -> tuple[Shape, str]:
    """The shape at the beginning of a text, and what follows it. Nothing is told of what lies deeper, so a sender cannot nest too deep."""
    is_array = text.startswith("ARRAY<")
    if depth == DEEPEST and (is_array or text.startswith("OBJECT<")):
        return ["VOID"] if is_array else {}, _after_closing(text)
    if is_array:
        inner, rest = _parse(text[len("ARRAY<") :], depth=depth + 1)
        return [inner], _after(rest, ">")
    if text.startswith("OBJECT<"):
        return _members(text[len("OBJECT<") :], depth=depth)
    found = _WORD.match(text)
    if found is None:
        raise ValueError(f"{text[:200]!r} begins with no type")
    return found[0].replace(" ", ""), text[found.end() :]


def _members(text: str, *, depth: int) -> tuple[dict[str, Shape], str]:
    members: dict[str, Shape] = {}
    while not text.startswith(">"):
        name, text = _name(text.removeprefix(", "))
        members[name], text = _parse(_after(text, ": "), depth=depth + 1)
    return members, _after(text, ">")


def _name(text: str) -> tuple[str, str]:
    """A member's name; in backticks where it is not plain, a backtick in it doubled."""
    quoted = _QUOTED.match(text)
    if quoted is not None:
        return quoted[1].replace("``", "`"), text[quoted.end() :]
    name, colon, rest = text.partition(": ")
    return name, colon + rest


def _after(text: str, mark: str) -> str:
    if not text.startswith(mark):
        raise ValueError(f"{text[:200]!r} does not begin with {mark!r}")
    return text[len(mark) :]


def _after_closing(text: str) -> str:
    """What follows the bracket that closes the first one; those inside quoted names are none."""
    opened = 0
    for found in _BRACKET.finditer(text):
        opened += {"<": 1, ">": -1}.get(found[0], 0)
        if found[0] == ">" and not opened:
            return text[found.end() :]
    raise ValueError(f"{text[:200]!r} ends before it is closed")
