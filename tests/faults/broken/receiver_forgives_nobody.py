"""The receiver that does not notice when it was held up: whose time ran out meanwhile is gone before he has had his turn.

Run as `python -m tests.faults.broken.receiver_forgives_nobody` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import asyncio

from infra.running.cli import run
from infra.running.pulse import Pulse
from ingest.child import cli


def beats_never(pulse: Pulse, loop: asyncio.AbstractEventLoop) -> None:
    return


if __name__ == "__main__":
    Pulse.begin = beats_never  # type: ignore[assignment, method-assign]
    run(cli)
