"""Attacks a receiver of its own: `python -m tests.faults.hostile --requests 10000 --seed 7`; exits with 1 when something did not hold."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from infra.running.embedded import EmbeddedServer
from tests.faults.hostile.onslaught import onslaught
from tests.ports import free_port


def main(
    requests: Annotated[int, typer.Option(min=1, help="How many attacks.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Repeats the attacks of an earlier run; 0 takes new ones.")] = 0,
    module: Annotated[str, typer.Option(help="What to attack, such as a module of tests/faults/broken.")] = "ingest",
) -> None:
    """Attacks a receiver with hostile requests and says what did not hold."""
    seed = seed or random.SystemRandom().randrange(1, 2**31)
    console, began = Console(stderr=True, highlight=False), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder) / "log", free_port(), password="a-test-password")
        server.start()
        try:
            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
                task = progress.add_task("attacking", total=requests)
                verdict = onslaught(
                    module, home=Path(folder) / "home", log_url=server.url, prefix="hostile:", requests=requests, seed=seed,
                    on_answer=lambda: progress.advance(task),
                )  # fmt: skip
        finally:
            server.stop()
    print(f"{verdict.requests} attacks in {time.monotonic() - began:.1f} s, seed {seed}; statuses {dict(sorted(verdict.statuses.items()))}")
    print(f"{verdict.stored} stored; memory drift {verdict.drift_kb} KiB; at the end {verdict.resident_kb} KiB")
    for fault, count in verdict.faults.items():
        print(f"! {fault}: {count} times, such as", *verdict.examples[fault], sep="\n    ")
    sys.exit(1 if verdict.faults else 0)


if __name__ == "__main__":
    typer.run(main)
