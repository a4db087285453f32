"""Owns moments and operators as people write and read them: `2h` ago, `+10m` from now, an ISO 8601 time; user@host."""

from __future__ import annotations

import os
import pwd
import re
import socket
from datetime import UTC, datetime, timedelta

from schemas.errors import ConfigError

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_moment(text: str, *, now: datetime, option: str) -> datetime:
    """`2h` is two hours ago, `+2h` in two hours; a time without a zone is UTC. Raises ConfigError naming the option. Pure."""
    try:
        if relative := re.fullmatch(r"([+-]?)([0-9]{1,9})([smhd])", text):
            sign, number, unit = relative.groups()
            away = timedelta(**{UNITS[unit]: int(number)})
            return now + away if sign == "+" else now - away
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{option} {text!r} is no time: write 2026-01-31T12:00:00Z, or 2h for two hours ago, or +10m") from error


def operator_name() -> str:
    """Who acts, as far as this machine knows: user@host. Not from the environment, which anyone may set."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # A container's user need not have a name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
