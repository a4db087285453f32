"""Owns what receivers write down outside the log about what it acknowledged, so that its own death can be counted.

spool/<receiver>/acknowledged    JSON: `highest`, by `shard|stream|incarnation` the highest number and when it was noted, ms;
                                 `accepted`, by `tenant:source` how many events this receiver was given a number for
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from infra.spools import Folder, folders

FILE = "acknowledged"
Life = tuple[int, str, str]
"""Shard, name of the stream, incarnation."""


@dataclass(slots=True)
class Acknowledged:
    """Of one receiver's folder, over all processes that held it."""

    highest: dict[Life, tuple[int, int]] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Folder) -> Acknowledged:
        """Nothing, where there is none or it cannot be read."""
        try:
            noted = orjson.loads((folder.path / FILE).read_bytes())
            highest = {_life(name): (int(number), int(at_ms)) for name, (number, at_ms) in noted["highest"].items()}
            return cls(highest, {owner: int(count) for owner, count in noted["accepted"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def write(self, folder: Folder) -> None:
        """In the place of what was there, synced; raises OSError."""
        names = {f"{shard}|{stream}|{incarnation}": noted for (shard, stream, incarnation), noted in self.highest.items()}
        beside = folder.path / f"{FILE}.new"
        with beside.open("wb") as file:
            file.write(orjson.dumps({"highest": names, "accepted": self.accepted}))
            file.flush()
            os.fdatasync(file.fileno())
        beside.replace(folder.path / FILE)


def _life(name: str) -> Life:
    shard, stream, incarnation = name.split("|")
    return int(shard), stream, incarnation


def highest_acknowledged(home: Path, *, since_ms: int) -> dict[Life, int]:
    """By all receivers of this home, the highest number of every stream's incarnation that was noted since then."""
    found: dict[Life, int] = {}
    for life, number in _noted(home, since_ms=since_ms):
        found[life] = max(number, found.get(life, 0))
    return found


def _noted(home: Path, *, since_ms: int) -> Iterator[tuple[Life, int]]:
    for folder in folders(home):
        for life, (number, at_ms) in Acknowledged.read(folder).highest.items():
            if at_ms >= since_ms:
                yield life, number
