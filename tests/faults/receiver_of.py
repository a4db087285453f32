"""Owns running the real parent of receivers over others than the real ones: `python -m tests.faults.receiver_of MODULE`."""

from __future__ import annotations

import sys

from infra.running.cli import run
from ingest import __main__ as parent

if __name__ == "__main__":
    parent.CHILD_MODULE = sys.argv.pop(1)
    run(parent.cli)
