"""The receiver that takes every delivery for a new one: what is sent again is there twice.

Run as `python -m tests.faults.broken.receiver_forgets_deliveries` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from ingest.child import cli
from tests.faults.breaking import break_script_for_good

LOOKS_IN_SEEN = ("local first, is_known, stale = find(number, marker, marker)", "local first, is_known, stale")

if __name__ == "__main__":
    break_script_for_good("append", LOOKS_IN_SEEN)
    run(cli)
