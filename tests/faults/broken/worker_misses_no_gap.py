"""The worker that counts nothing of what was removed before its group was handed it: such a loss is silent.

Run as `python -m tests.faults.broken.worker_misses_no_gap` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from processors.child import app
from tests.faults.breaking import break_script_for_good

if __name__ == "__main__":
    break_script_for_good("trim", ("count_undelivered(group, stood, stands[group], seen.lives, fresh)", ""))
    run(app)
