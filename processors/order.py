"""Owns the order of events with a key: one lane per key, in which one delivery runs at a time, in the order of its stream.

Only deliveries whose processor asked for it (`key=True`) have a lane. A failing one keeps its place at the head of its lane
until it succeeds or becomes a dead letter; deliveries of other keys pass by.
"""

from __future__ import annotations

from collections import deque

from infra.streams.reading import Lease
from processors.registry import Registry

Lane = tuple[str, bytes, bytes, bytes]
NO_LANE: Lane = ("", b"", b"", b"")


class Lanes:
    """The lanes of one worker; a lease is in its lane from `admit` to `leave`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lanes: dict[Lane, deque[Lease]] = {}

    def lane_of(self, lease: Lease) -> Lane | None:
        """Stream, tenant, source and key; None for a delivery that may run at any time."""
        fields = lease.fields
        if not fields.get(b"key"):
            return None
        spec = self._registry.match(fields.get(b"event_type", b"").decode(errors="replace"))
        if spec is None or not spec.key:
            return None
        return lease.stream, fields.get(b"tenant_id", b""), fields.get(b"source", b""), fields[b"key"]

    def admit(self, lease: Lease) -> bool:
        """True when it may run now; else it waits until those before it have left."""
        lane = self.lane_of(lease)
        if lane is None:
            return True
        waiting = self._lanes.setdefault(lane, deque())
        waiting.append(lease)
        return len(waiting) == 1

    def close(self, lease: Lease) -> list[Lease]:
        """Everything in the lane of a lease, which is no lane any more."""
        return list(self._lanes.pop(self.lane_of(lease) or NO_LANE, ()))

    def replace(self, lease: Lease, *, by: Lease) -> None:
        """The same delivery with another count, at the same place."""
        waiting = self._lanes.get(self.lane_of(lease) or NO_LANE, deque())
        for index, one in enumerate(waiting):
            if one is lease:
                waiting[index] = by

    def leave(self, lease: Lease) -> Lease | None:
        """Settled or lost: whoever may run now in its place."""
        lane = self.lane_of(lease)
        if lane is None or lane not in self._lanes:
            return None
        waiting = self._lanes[lane]
        was_first = bool(waiting) and waiting[0] is lease
        remaining = deque(one for one in waiting if one is not lease)
        if remaining:
            self._lanes[lane] = remaining
        else:
            del self._lanes[lane]
        return remaining[0] if was_first and remaining else None
