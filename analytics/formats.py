"""Owns how an answer is written: as a table for people, as JSON, CSV or Parquet for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType, VariantType, VariantVal
from rich.console import Console
from rich.table import Table as RichTable

from analytics.questions import Answer
from analytics.rendering import as_csv, as_json, as_text
from infra.running.screen import table_console, visible
from schemas.errors import ConfigError


class Format(StrEnum):
    """What can be printed; Parquet only into a file."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def refuse_unwritable(form: Format, *, output: Path | None) -> None:
    """Raises ConfigError before anything is asked."""
    if form is Format.PARQUET and output is None:
        raise ConfigError("--format parquet is no text, so it is not printed: name a file with --output")
    if output is not None and not output.absolute().parent.is_dir():
        raise ConfigError(f"--output {output}: there is no directory {output.absolute().parent}, so the answer could not be written")


def write(answer: Answer, *, form: Format, output: Path | None) -> None:
    """To stdout, or into a file that is there whole or not at all; then, on stderr, whether there is more."""
    if form is Format.PARQUET:
        assert output is not None
        with fresh(output) as path:
            write_parquet(answer, path=path)
    elif output is None:
        print_text(answer, form=form, file=sys.stdout)
    else:
        with fresh(output) as path, path.open("w", encoding="utf-8", newline="") as file:
            print_text(answer, form=form, file=file)
    if answer.more:
        Console(stderr=True).print(answer.more, highlight=False, soft_wrap=True)


@contextmanager
def fresh(output: Path) -> Iterator[Path]:
    """A name beside the file, renamed to it when all is written."""
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)


def print_text(answer: Answer, *, form: Format, file: IO[str]) -> None:
    match form:
        case Format.JSON:
            print("[" + ",\n ".join(as_json(row) for row in answer.rows) + "]", file=file)
        case Format.CSV:
            for line in csv_lines(answer):
                print(visible(line) if file.isatty() else line, end="\n" if file.isatty() else "\r\n", file=file)
        case _:
            table = RichTable(*answer.schema.names)
            for row in answer.rows:
                table.add_row(*(as_text(value) for value in row))
            console = table_console()
            console.file = file
            console.print(table)


def csv_lines(answer: Answer) -> Iterator[str]:
    """Text is in quotes and NULL is nothing at all, so that an empty text and NULL differ. Pure."""
    yield ",".join(as_csv(name) for name in answer.schema.names)
    for row in answer.rows:
        yield ",".join(as_csv(value) for value in row)


def write_parquet(answer: Answer, *, path: Path) -> None:
    """With Spark's types, and a VARIANT as its JSON: other readers know it as text."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(without_variant(answer.schema), timezone="UTC")
    columns = [pa.array([to_arrow(row[number]) for row in answer.rows], type=field.type) for number, field in enumerate(schema)]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)


def without_variant(kind: Any) -> Any:
    """The same type with text in the place of every VARIANT. Pure."""
    match kind:
        case VariantType():
            return StringType()
        case StructType():
            return StructType([StructField(field.name, without_variant(field.dataType), nullable=True) for field in kind.fields])
        case ArrayType():
            return ArrayType(without_variant(kind.elementType))
        case MapType():
            return MapType(without_variant(kind.keyType), without_variant(kind.valueType))
        case _:
            return kind


def to_arrow(value: object) -> Any:
    """What pyarrow takes for a value of a row. Pure."""
    match value:
        case VariantVal():
            return value.toJson()
        case bytearray():
            return bytes(value)
        case Row():
            return {name: to_arrow(inner) for name, inner in zip(value.__fields__, value, strict=True)}
        case dict():
            return [(to_arrow(key), to_arrow(inner)) for key, inner in value.items()]
        case list():
            return [to_arrow(inner) for inner in value]
        case _:
            return value
