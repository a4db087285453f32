"""The worker whose dead letters are not written in the step that acks: whoever takes the delivery up writes another one.

Run as `python -m tests.faults.broken.worker_gives_up_without_ack` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from processors.child import app
from tests.faults.breaking import break_script_for_good

MOVES = "local function give_up(id, parts)\n    local fields = event_fields(id)\n    remove(id)"

if __name__ == "__main__":
    break_script_for_good("settle", (MOVES, MOVES.removesuffix("\n    remove(id)")))
    run(app)
