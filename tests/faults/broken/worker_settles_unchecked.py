"""The worker without fencing: its settle script takes everybody for the owner of a delivery.

Run as `python -m tests.faults.broken.worker_settles_unchecked` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from processors.child import app
from tests.faults.breaking import break_script_for_good

if __name__ == "__main__":
    break_script_for_good("settle", ("return count_of(id) == tonumber(count)", "return true"))
    run(app)
