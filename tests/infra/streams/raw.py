"""Owns the raw client of these tests: to look at what is stored, and to do what an operator should not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from infra.streams.connection import open_blocking


def open_raw(log: LogSettings, *, home: Path) -> Any:
    """Untyped on purpose: redis-py's types allow every reply of every protocol at once."""
    return open_blocking(log, home=home)
