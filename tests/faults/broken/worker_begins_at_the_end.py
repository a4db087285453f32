"""The worker that makes a group which vanished at the end of its streams: what it has not settled is skipped without a trace.

Run as `python -m tests.faults.broken.worker_begins_at_the_end` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from processors.child import app
from tests.faults.breaking import break_script_for_good

if __name__ == "__main__":
    at_the_end = ("registered(KEYS[i]) or '0'", "'$'")
    break_script_for_good("declare", at_the_end, ("entries_read(create[3], create[5], KEYS[2])", "false"))
    run(app)
