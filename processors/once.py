"""Owns `Once`: what a processor writes so that it happens once per event, however often the event is delivered.

Nothing is written while the processor runs. The writes travel with the ack and are made in the same step as it; an attempt that
fails, overstays or lost its lease leaves none of them.
"""

from __future__ import annotations

from infra.streams.once import LARGEST_COUNT, Kind, OnceWrite
from schemas.event import is_name

MOST_WRITES = 1000
MOST_BYTES = 1_000_000


class Once:
    """The writes of one attempt; raises ValueError for one that cannot be stored, which then is the attempt's failure."""

    __slots__ = ("_bytes", "_is_over", "_writes")

    def __init__(self) -> None:
        self._writes: dict[tuple[Kind, str, str], int | str] = {}
        self._bytes = 0
        self._is_over = False

    def count(self, name: str, field: str = "", *, by: int = 1) -> None:
        """Adds to a count; fields of one name are counted side by side, as in `count("pushes", event.repository)`."""
        if isinstance(by, bool) or not isinstance(by, int):
            raise ValueError(f"delivery.once.count({name!r}, by={by!r}): counts are whole numbers")
        before = self._writes.get(("counts", name, field), 0)
        total = by + (before if isinstance(before, int) else 0)
        if abs(total) > LARGEST_COUNT:
            raise ValueError(f"delivery.once.count({name!r}, by={by}): counts go up to {LARGEST_COUNT}, and so does what is added to them")
        self._put("counts", name, field=field, value=total)

    def set(self, name: str, value: str, *, field: str = "") -> None:
        """Sets a value; of several events the latest one's stays, in whatever order they are processed."""
        self._put("values", name, field=field, value=value)

    def add(self, name: str, member: str) -> None:
        """Adds a member to a set."""
        self._put("members", name, field=member, value="")

    def _put(self, kind: Kind, name: str, *, field: str, value: int | str) -> None:
        if self._is_over:
            raise ValueError(f"delivery.once: the attempt is over, so nothing can be written to {name!r} any more; await what writes")
        if not is_name(name):
            raise ValueError(
                f"delivery.once: {name!r} is no name: write a-z, 0-9, _ and -, at most 63 of them; other text goes into fields"
            )
        # Text that is no Unicode fails here, in the attempt, and not when its neighbours are settled with it.
        place, before = (kind, name, field), self._writes.get((kind, name, field))
        grown = self._bytes + _size(field, value) - (0 if before is None else _size(field, before))
        if len(self._writes) + (before is None) > MOST_WRITES or grown > MOST_BYTES:
            raise ValueError(f"delivery.once: an attempt may write {MOST_WRITES} things and {MOST_BYTES} bytes; put large ones elsewhere")
        self._writes[place], self._bytes = value, grown

    def end(self) -> tuple[OnceWrite, ...]:
        """What was written; from now on nothing can be, since it would be lost in silence."""
        self._is_over = True
        return tuple(OnceWrite(kind, name, field, str(value)) for (kind, name, field), value in self._writes.items())


def _size(field: str, value: int | str) -> int:
    return len(field.encode()) + len(str(value).encode())
