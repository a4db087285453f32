"""Owns reading a table without Spark: the rows of the files that its log names, by a reader that is not ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.settings import ArchiveSettings, table_location


def archived(home: Path, *columns: str, table: str = "events") -> list[dict[str, Any]]:
    """These columns of all that an installation has archived in a table; nothing before there is one."""
    place = Path(table_location(ArchiveSettings(), home=home, table=table))
    return [row for path in sorted(_committed_files(place)) for row in _rows(place / path, columns)]


def _rows(path: Path, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    # Opened alone, since by its path it would be a part of a dataset, whose partition column the file does not have.
    with path.open("rb") as file:
        rows: list[dict[str, Any]] = pq.ParquetFile(file).read(list(columns)).to_pylist()
    return rows


def _committed_files(table: Path) -> set[str]:
    """What commits have added and none has removed; a file that no commit names is no part of the table."""
    files: set[str] = set()
    for action in _actions(table / "_delta_log"):
        if "add" in action:
            files.add(unquote(action["add"]["path"]))
        if "remove" in action:
            files.discard(unquote(action["remove"]["path"]))
    return files


def _actions(log: Path) -> Iterator[dict[str, Any]]:
    for entry in sorted(log.glob("[0-9]*.json")):
        yield from map(json.loads, entry.read_text().splitlines())
