"""The worker that acks retried entries and does not delete them: nobody reads them again, and they stay for ever.

Run as `python -m tests.faults.broken.worker_leaves_retries_behind` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from processors.child import app
from tests.faults.breaking import break_script_for_good

if __name__ == "__main__":
    break_script_for_good("settle", ("local is_own_stream = not string.match(KEYS[1], '}:events:%a+$')", "local is_own_stream = false"))
    run(app)
