"""The parent that kills a receiver which does not answer for a moment: whoever it was serving is reset.

Run as `python -m tests.faults.broken.receiver_is_not_waited_for` in the place of `python -m ingest`.
"""

from __future__ import annotations

import os
import signal

from infra.running import healthcheck
from infra.running.cli import run
from infra.running.supervisor import Running, Supervisor
from ingest.__main__ import cli

really_say = Supervisor._readiness


def kill_at_once(self: Supervisor, running: Running) -> str:
    if not running.ready and running.process is not None:
        os.kill(running.process.pid, signal.SIGKILL)
    return really_say(self, running)


if __name__ == "__main__":
    healthcheck.TIMEOUT_S = 0.5
    Supervisor._readiness = kill_at_once  # type: ignore[method-assign]
    run(cli)
