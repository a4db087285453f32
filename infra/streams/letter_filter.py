"""Owns which dead letters an operator means: a filter that looks at the stored fields, before anything is decoded. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from infra.streams.entries import Fields
from schemas.event import to_epoch_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Empty values let everything pass."""

    group: str = ""
    state: str = ""
    event_type: str = ""
    """A type, or a prefix that ends in `.*`."""
    tenant: str = ""
    source: str = ""
    reason: str = ""
    """Any part of the reason."""
    since: datetime | None = None
    """When the log took the letter, by the server's clock; included."""
    until: datetime | None = None
    """The same, not included."""

    @property
    def lowest_id(self) -> str:
        return "-" if self.since is None else f"{to_epoch_ms(self.since)}-0"

    @property
    def above_id(self) -> str:
        """The id below which letters may be, as the end of a range."""
        return "+" if self.until is None else f"({to_epoch_ms(self.until)}-0"

    def fits(self, fields: Fields, *, state: str) -> bool:
        """Whether a letter in this state is meant; times are not looked at, since they bound what is read at all."""
        wanted = {b"group": self.group, b"tenant_id": self.tenant, b"source": self.source}
        return (
            self.state in ("", state)
            and all(not value or fields.get(name) == value.encode() for name, value in wanted.items())
            and _fits_type(fields.get(b"event_type", b"").decode(errors="replace"), pattern=self.event_type)
            and self.reason in fields.get(b"reason", b"").decode(errors="replace")
        )


def _fits_type(event_type: str, *, pattern: str) -> bool:
    if pattern.endswith(".*"):
        return event_type.startswith(pattern.removesuffix("*"))
    return pattern in ("", "*", event_type)
