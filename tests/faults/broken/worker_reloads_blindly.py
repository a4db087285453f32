"""The worker that takes any settings over without a look, and does not let its children finish.

Run as `python -m tests.faults.broken.worker_reloads_blindly` in the place of `python -m processors`.
"""

from __future__ import annotations

import os
import signal

from infra.running.cli import run
from infra.running.supervisor import Supervisor
from processors import __main__ as parent
from processors.crew import Crew
from processors.settings import GroupSettings

really_retire = Supervisor.retire


def kill(self: Supervisor, name: str) -> None:
    if pid := self.pid_of(name):
        os.kill(pid, signal.SIGKILL)
    really_retire(self, name)


def look_at_nothing(self: Crew, options: GroupSettings) -> None:
    return


if __name__ == "__main__":
    Supervisor.retire = kill  # type: ignore[method-assign]
    Crew._refuse_unfit = look_at_nothing  # type: ignore[method-assign]
    run(parent.app)
