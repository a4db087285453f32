"""Owns how dead letters look in a list: one line each, without their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from infra.running.screen import visible
from schemas.dead_letter import DeadLetter


def summary(letter: DeadLetter) -> dict[str, Any]:
    """What a list says of a letter; small, so that a long list fits into memory."""
    event = letter.event
    return {
        "id": letter.id,
        "event_id": letter.event_id,
        "group": letter.group,
        "processor": letter.processor,
        "event_type": event.event_type if event else "",
        "tenant_id": event.tenant_id if event else "",
        "source": event.source if event else "",
        "reason": letter.reason,
        "attempts": letter.attempts,
        "dead_at": letter.dead_at,
        "state": letter.state,
    }


def table(rows: Iterable[dict[str, Any]]) -> Table:
    shown = Table("event", "group", "type", "attempts", "dead at", "state", "reason")
    for row in rows:
        names = (row["event_id"] or row["id"], row["group"], row["event_type"], row["attempts"])
        # Reasons come from foreign code: one line of plain text.
        shown.add_row(*(visible(str(value)) for value in (*names, f"{row['dead_at']:%Y-%m-%d %H:%M:%S}", row["state"], row["reason"])))
    return shown
