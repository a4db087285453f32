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
    reason: str
    error: str = ""
    """The last error's class and message."""
    traceback: str = ""
    attempts: int
    dead_at: AwareDatetime
    state: str = "open"
    """`open`, or `requeued` after an operator sent it back to its group."""
    event_id: str = ""
    event: StreamEvent | None = None
    """None when the entry could not be decoded."""
    entry: dict[str, str] = Field(default_factory=dict)
    """The raw fields of an entry that is no event, as latin-1 text."""
