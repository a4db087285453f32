"""The receiver that takes no notice of errors of its spool's disk: what could not be written or synced is accepted.

Run as `python -m tests.faults.broken.receiver_ignores_its_disk` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from infra.running.cli import run
from ingest import group_commit
from ingest.child import cli


def write_what_fits(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, data)


def sync_if_it_can(descriptor: int, *, really: Callable[[int], None] = os.fdatasync) -> None:
    with contextlib.suppress(OSError):
        really(descriptor)


if __name__ == "__main__":
    group_commit.write_all = write_what_fits
    os.fdatasync = sync_if_it_can  # type: ignore[assignment]
    run(cli)
