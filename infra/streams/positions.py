"""Owns `Position`: how far a reader has come in one stream, and how positions compare. Pure."""

from __future__ import annotations

from dataclasses import dataclass

START = "0-0"


@dataclass(frozen=True, slots=True)
class Position:
    """Everything up to and including `entry_id` of this incarnation; `sequence` is that entry's number."""

    incarnation: str
    entry_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class StreamName:
    """One stream of one shard that the archive reads; written `2:default` where a text is needed."""

    shard: int
    name: str

    def __str__(self) -> str:
        return f"{self.shard}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> StreamName:
        shard, _, name = text.partition(":")
        return cls(int(shard), name)


def id_order(entry_id: str) -> tuple[int, int]:
    """Entry ids are two numbers; compared as strings, 9-0 would come after 10-0."""
    milliseconds, _, counter = entry_id.partition("-")
    return int(milliseconds), int(counter or 0)
