"""Owns `DeadLetter`: an accepted event that a group has given up on, and why."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.event import StreamEvent


class DeadLetter(BaseModel):
    """What a group knew when it gave up; `entry` keeps the bytes when they are no event."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    id: str
    """Shard and entry id, `2-1763316000000-0`: how operators name this dead letter."""
    group: str
    processor: str
    from_stream: str = ""
    """The key of the stream that its last delivery came from: an event stream, or the group's retry stream."""
    from_entry: str = ""
    """The entry id there."""
    reason: str
    error: str = ""
    """The last error's class and message."""
    traceback: str = ""
    first_error: str = ""
    """The first error's class and message, the same as the last where there was one attempt; empty where the first attempts left
    none: their worker died, or the event was held back to keep its order."""
    first_traceback: str = ""
    attempts: int
    dead_at: AwareDatetime
    state: str = "open"
    """`open`; `requeued` after an operator sent it back to its group; `discarded` after one decided to leave it."""
    decided_by: str = ""
    """Who requeued or discarded it, as user@host."""
    decided_at: AwareDatetime | None = None
    because: str = ""
    """Why it was discarded."""
    event_id: str = ""
    event: StreamEvent | None = None
    """None when the entry could not be decoded."""
    entry: dict[str, str] = Field(default_factory=dict)
    """The raw fields of an entry that is no event, as latin-1 text."""
