"""Owns `Receipt`: what the log, or the spool in its place, says about an event that was handed to it."""

from __future__ import annotations

from typing import NamedTuple


class Receipt(NamedTuple):
    """Proof that an event is on the synced log, at a position of one stream and incarnation; or in a receiver's synced spool."""

    event_id: str
    """The event's own id, or that of the first one when this is a duplicate."""
    duplicate: bool
    conflict: bool
    """The delivery id was seen before with another body; the event was stored and flagged."""
    stream: str
    incarnation: str
    entry_id: str
    sequence: int
    """The gapless number within (stream, incarnation); 0 for a duplicate, and while it waits."""
    scheduled: bool = False
    """The event is stored and waits for its time; it has no entry id and no number yet."""
    shard: int = -1
    """Of the log; -1 where it has no position."""
    spooled: bool = False
    """The event is in the receiver's spool and will be appended from there; it has no position yet, and may turn out a duplicate."""
