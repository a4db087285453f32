"""The receiver that takes no notice of errors of its spool's disk: what could not be written is accepted.

Run as `python -m tests.faults.broken.receiver_ignores_its_disk` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import contextlib
import os

from infra.running.cli import run
from ingest import group_commit
from ingest.child import cli


def write_what_fits(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, data)


if __name__ == "__main__":
    group_commit.write_all = write_what_fits
    run(cli)
