"""Owns what a power cut leaves of a table on a local disk: finds a newest version that did not wholly reach it, and sets it aside.

Delta commits before we sync, and nothing orders the two on the disk: after a power cut the log entry may be there and its data
not, or only half of the entry. The group moves after the sync, so everything such a version held is still in the log.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.delta_log import parse_entry, sync_all

DIRECTORY = "_torn"


def newest_version(table: Path) -> int | None:
    """By the names in the log's directory, whatever is in the files; None when there is no table."""
    names = (path.stem for path in (table / "_delta_log").glob("*.json"))
    return max((int(name) for name in names if name.isdigit()), default=None)


def why_torn(table: Path, *, version: int) -> str:
    """What of this version did not reach the disk, or an empty text."""
    try:
        entry = parse_entry((table / "_delta_log" / f"{version:020}.json").read_bytes(), version=version)
    except (ValueError, KeyError, TypeError, AttributeError):
        return "its log entry is no JSON"
    if not entry.is_whole:
        return "its log entry is empty, or a part of it is missing"
    for name, size_bytes in zip(entry.data_files, entry.data_bytes, strict=True):
        if reason := _why_unreadable(table / name, size_bytes=size_bytes):
            return f"{name} {reason}"
    return ""


def _why_unreadable(path: Path, *, size_bytes: int) -> str:
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != size_bytes:
        return f"has {path.stat().st_size} of {size_bytes} bytes"
    try:
        pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return "is no Parquet file"
    return ""


def set_aside(table: Path, *, version: int) -> Path:
    """Moves everything that the log has of this version to a directory that Delta ignores; returns the directory."""
    log, aside = table / "_delta_log", table / DIRECTORY / f"{version:020}-{os.urandom(4).hex()}"
    aside.mkdir(parents=True)
    for path in [*log.glob(f"{version:020}.*"), *log.glob(f".{version:020}.*"), *_hints(log, version=version)]:
        path.rename(aside / path.name)
    sync_all([aside, aside.parent, log, table])
    return aside


def _hints(log: Path, *, version: int) -> list[Path]:
    """The hint at the newest checkpoint, when it names this version or nothing that can be read."""
    hint = log / "_last_checkpoint"
    try:
        is_older = int(orjson.loads(hint.read_bytes())["version"]) < version
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError):
        is_older = False
    return [] if is_older else [path for path in (hint, log / "._last_checkpoint.crc") if path.exists()]
