"""Owns reading a few members of a JSON body, without building the rest of it: of a webhook's kilobytes two or three names are looked at.

It reads less than `json_body.py` and says so by an error: another kind of member than text, an object that is none, deep nesting.
What it reads, that would read too, and alike; a test holds the two against each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

Tree = dict[str, "Tree"]
"""The members that are read, by their names; one without members of its own is a text."""


class Members:
    """The texts at some dotted paths."""

    __slots__ = ("_decode", "_getters")

    def __init__(self, *paths: str) -> None:
        """An empty path leads to nothing. Raises ValueError where one leads through the text of another."""
        tree = _tree_of([path for path in paths if path])
        self._decode = msgspec.json.Decoder(_object_of(tree)).decode
        self._getters = [attrgetter(_place_of(tree, path.split("."))) if path else _nothing for path in paths]

    def read(self, body: bytes) -> list[str]:
        """In the order of the paths, "" for what is not there; raises ValueError for a body that it does not read."""
        try:
            content = self._decode(body)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        try:
            return [getter(content) or "" for getter in self._getters]
        except AttributeError:  # Where one of them would stand there is nothing.
            return [_text(content, getter) for getter in self._getters]


def _text(content: object, getter: Callable[[Any], str | None]) -> str:
    try:
        return getter(content) or ""
    except AttributeError:
        return ""


def _nothing(_: object) -> None:
    return None


def _tree_of(paths: Sequence[str]) -> Tree:
    tree: Tree = {}
    ends = [functools.reduce(lambda place, name: place.setdefault(name, {}), path.split("."), tree) for path in paths]
    if any(ends):
        raise ValueError(f"one of {', '.join(paths)} leads through the text of another")
    return tree


def _object_of(tree: Tree) -> Any:
    """The type of an object with these members, all of which may be missing; they may be called what no attribute may."""
    fields = [(f"m{number}", (_object_of(below) if below else str) | None, None) for number, below in enumerate(tree.values())]
    return msgspec.defstruct("Members", fields, rename={f"m{number}": name for number, name in enumerate(tree)}, gc=False)


def _place_of(tree: Tree, path: Sequence[str]) -> str:
    """The path in that type."""
    name, *rest = path
    here = f"m{list(tree).index(name)}"
    return f"{here}.{_place_of(tree[name], rest)}" if rest else here
