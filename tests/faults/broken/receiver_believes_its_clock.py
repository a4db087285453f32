"""The receiver whose event ids are what its clock says: when that is set back, they go back, too.

Run as `python -m tests.faults.broken.receiver_believes_its_clock` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import os
import uuid

from infra.clock import EventIds
from infra.running.cli import run
from ingest.child import cli


def by_the_clock(ids: EventIds, count: int) -> list[str]:
    said = ids.clock.now_ms() << 80 | 0x7 << 76 | 0b10 << 62
    return [str(uuid.UUID(int=said | int.from_bytes(os.urandom(7)))) for _ in range(count)]


if __name__ == "__main__":
    EventIds.mint_many = by_the_clock  # type: ignore[assignment, method-assign]
    run(cli)
