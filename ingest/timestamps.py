"""Owns the time that a sender signs: how it is read, how it is written, and when it is too far from ours. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from ingest.scheme import Scheme, TimestampUnit
from schemas.errors import BadSignature, StaleTimestamp

# `int` and `float` also read `1_700`, full-width digits and spaces, and none of them is a timestamp.
_is_written: dict[TimestampUnit, re.Pattern[str]] = {
    "s": re.compile(r"[0-9]{1,12}"),
    "ms": re.compile(r"[0-9]{1,15}"),
    "iso": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"),
}


def refuse_stale(text: str, *, scheme: Scheme, now: datetime) -> None:
    """Raises StaleTimestamp when the signed time is outside the tolerance, and BadSignature when it is no time."""
    ahead_s = _seconds(text, unit=scheme.timestamp_unit) - now.timestamp()
    if abs(ahead_s) > scheme.tolerance_s:
        where = "before" if ahead_s < 0 else "after"
        raise StaleTimestamp(
            f"the signed time is {abs(ahead_s):.0f} s {where} ours, and scheme {scheme.name} allows {scheme.tolerance_s} s"
        )


def written(now: datetime, *, unit: TimestampUnit) -> str:
    """The time as a sender of that unit writes it."""
    if unit == "iso":
        return f"{now:%Y-%m-%dT%H:%M:%S}Z"
    return str(int(now.timestamp() * (1000 if unit == "ms" else 1)))


def _seconds(text: str, *, unit: TimestampUnit) -> float:
    if not _is_written[unit].fullmatch(text):
        raise BadSignature("the signed time is missing, or is not written as the scheme says")
    if unit == "iso":
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError as error:
            raise BadSignature("the signed time is on no calendar") from error
    return int(text) / (1000 if unit == "ms" else 1)
