"""The worker that never asks what a lost reply has handed to it: such entries stay pending under its name, and nobody runs them.

Run as `python -m tests.faults.broken.worker_takes_replies_for_granted` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.streams.reading import GroupReader
from processors.child import app
from processors.intake import Intake


async def take_nothing(self: Intake, reader: GroupReader, *, shard: int | None = None) -> None:
    """In the place of `take_unheard`."""


if __name__ == "__main__":
    Intake.take_unheard = take_nothing  # type: ignore[method-assign]
    run(app)
