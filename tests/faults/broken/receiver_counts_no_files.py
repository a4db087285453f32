"""The receiver that takes connections until it may open no more files: what connects then is reset without a word.

Run as `python -m tests.faults.broken.receiver_counts_no_files` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running import descriptors
from infra.running.cli import run
from ingest.child import cli


def as_many_as_wanted(limit: int, *, open_files: int, wanted: int) -> int:
    return wanted


if __name__ == "__main__":
    descriptors.connections_within = as_many_as_wanted
    run(cli)
