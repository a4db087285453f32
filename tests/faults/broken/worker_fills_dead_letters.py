"""The worker without a cap on dead letters: it goes on for as long as there is something to give up on.

Run as `python -m tests.faults.broken.worker_fills_dead_letters` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from processors.child import app
from processors.letter_cap import LetterCap


async def no_look(self: LetterCap) -> None:
    return


if __name__ == "__main__":
    LetterCap.look = no_look  # type: ignore[method-assign]
    run(app)
