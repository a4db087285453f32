"""Owns what a table's own log says of it, read without Spark: rows, files, bytes, its newest commit and its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import TableUnavailable

# What a checkpoint repeats of each action; reading no more of it saves most of the work.
CHECKPOINTED = ("add.path", "add.size", "add.stats", "add.deletionVector.cardinality", "metaData.schemaString")


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the table's log describes it."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class Facts:
    """One table, as its newest version has it."""

    version: int
    rows: int | None
    """None when a file of it does not tell its count."""
    files: int
    size_bytes: int
    committed_at: datetime | None
    columns: tuple[StoredColumn, ...]


@dataclass(slots=True)
class _State:
    """What the actions that were read so far add up to."""

    files: dict[str, tuple[int, int | None]]
    schema: str = ""
    committed_ms: int | None = None

    def take(self, action: dict[str, Any]) -> None:
        if add := action.get("add"):
            self.files[unquote(add["path"])] = (int(add["size"]), rows_in(add))
        if remove := action.get("remove"):
            self.files.pop(unquote(remove["path"]), None)
        if metadata := action.get("metaData"):
            self.schema = metadata["schemaString"]
        if information := action.get("commitInfo"):
            self.committed_ms = information.get("timestamp")


def read_facts(table: Path) -> Facts | None:
    """None when there is no table; raises TableUnavailable when its log cannot be read."""
    log = table / "_delta_log"
    try:
        versions = sorted(int(path.stem) for path in log.glob("[0-9]*.json") if path.stem.isdigit())
        if not versions:
            return None
        state, start = _State({}), last_checkpoint(log)
        for action in (*_checkpointed(log, version=start), *_committed(log, versions=[one for one in versions if one > start])):
            state.take(action)
    except (OSError, ValueError, KeyError) as error:
        raise TableUnavailable(f"the log of {table} cannot be read ({error}): look again, or see `hooklake doctor`") from error
    return _facts(state, version=versions[-1])


def last_checkpoint(log: Path) -> int:
    """The version up to which a checkpoint has everything; -1 when there is none."""
    try:
        return int(orjson.loads((log / "_last_checkpoint").read_bytes())["version"])
    except FileNotFoundError:
        return -1


def rows_in(add: dict[str, Any]) -> int | None:
    """How many rows a file has that are not deleted; None when it does not tell. Pure."""
    stats = orjson.loads(add["stats"]) if add.get("stats") else {}
    deleted = (add.get("deletionVector") or {}).get("cardinality") or 0
    return int(stats["numRecords"]) - int(deleted) if "numRecords" in stats else None


def type_text(kind: Any) -> str:
    """A type as SQL writes it, from the JSON of a Delta schema. Pure."""
    if isinstance(kind, str):
        return {"long": "BIGINT", "integer": "INT"}.get(kind, kind.upper())
    match kind["type"]:
        case "array":
            return f"ARRAY<{type_text(kind['elementType'])}>"
        case "map":
            return f"MAP<{type_text(kind['keyType'])}, {type_text(kind['valueType'])}>"
        case _:
            fields = [f"{field['name']}: {type_text(field['type'])}" for field in kind["fields"]]
            return f"STRUCT<{', '.join(fields)}>"


def _facts(state: _State, *, version: int) -> Facts:
    counts = [rows for _, rows in state.files.values()]
    return Facts(
        version=version,
        rows=None if None in counts else sum(count for count in counts if count is not None),
        files=len(state.files),
        size_bytes=sum(size for size, _ in state.files.values()),
        committed_at=None if state.committed_ms is None else datetime.fromtimestamp(state.committed_ms / 1000, tz=UTC),
        columns=columns_of(state.schema),
    )


def columns_of(schema: str) -> tuple[StoredColumn, ...]:
    """The columns that a schema as JSON describes. Pure."""
    fields = orjson.loads(schema)["fields"] if schema else []
    return tuple(StoredColumn(one["name"], type_text(one["type"]), one.get("metadata", {}).get("comment", "")) for one in fields)


def _checkpointed(log: Path, *, version: int) -> Iterator[dict[str, Any]]:
    # One file, or several parts of one.
    for path in sorted(log.glob(f"{version:020}.checkpoint*.parquet")) if version >= 0 else ():
        with path.open("rb") as file:
            parquet = pq.ParquetFile(file)
            names = [name for name in CHECKPOINTED if name in {column.path for column in parquet.schema}]
            for batch in parquet.iter_batches(columns=names):
                yield from ({kind: what for kind, what in action.items() if what and any(what.values())} for action in batch.to_pylist())


def _committed(log: Path, *, versions: list[int]) -> Iterator[dict[str, Any]]:
    for version in versions:
        for line in (log / f"{version:020}.json").read_bytes().splitlines():
            yield orjson.loads(line)
