"""Owns `make bench`: runs the benchmarks, prints their table, writes `bench.json` under the home.

Exits with 0 when everything was measured, goals met or not, and with 1 when something could not be measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console

from infra.settings import home_directory
from tests.benchmarks.archiving import archiving
from tests.benchmarks.ingesting import ingesting
from tests.benchmarks.peer_venv import peers_python
from tests.benchmarks.processing import Options, processing
from tests.benchmarks.rates import CannotMeasure
from tests.benchmarks.rows import Row
from tests.benchmarks.table import table_of


class Benchmark(StrEnum):
    """What can be measured."""

    PROCESSING = "processing"
    INGEST = "ingest"
    ARCHIVE = "archive"


app = typer.Typer(add_completion=False)


@app.command()
def bench(
    only: Annotated[Benchmark | None, typer.Option(help="Run one benchmark instead of all.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each contender is measured; medians are shown.")] = 3,
    scale: Annotated[float, typer.Option(min=0.01, help="Multiplies the number of events.")] = 1.0,
    entries: Annotated[int, typer.Option(min=10_000, help="Entries in the large stream; 2000000 needs several GB of memory.")] = 200_000,
) -> None:
    """Measures hooklake beside its peers on this machine."""
    # Without a terminal rich assumes 80 columns, which cut the table's figures.
    screen, options = Console(width=None if sys.stdout.isatty() else 150), Options(repetitions, scale, entries)
    home = home_directory()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in [only] if only else list(Benchmark):
        rows += BENCHMARKS[name](options, home, lambda line: screen.print(line, highlight=False))
    screen.print(table_of(rows))
    path = home / "bench.json"
    path.write_bytes(bench_json(rows))
    screen.print(f"wrote {path}", highlight=False, soft_wrap=True)


def bench_json(rows: Sequence[Row]) -> bytes:
    return orjson.dumps([row.as_json() for row in rows], option=orjson.OPT_INDENT_2) + b"\n"


def _processing(options: Options, home: Path, say: Callable[[str], None]) -> list[Row]:
    say("the peers' packages are installed first when they are missing")
    return processing(options, peers_python=peers_python(home), say=say)


def _ingesting(options: Options, home: Path, say: Callable[[str], None]) -> list[Row]:
    say("the peers' packages are installed first when they are missing")
    return ingesting(options, peers_python=peers_python(home), say=say)


def _archiving(options: Options, _home: Path, say: Callable[[str], None]) -> list[Row]:
    return archiving(options, say=say)


BENCHMARKS = {Benchmark.PROCESSING: _processing, Benchmark.INGEST: _ingesting, Benchmark.ARCHIVE: _archiving}

if __name__ == "__main__":
    try:
        app()
    except CannotMeasure as error:
        sys.exit(f"bench: {error}")
