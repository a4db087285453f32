"""Controls of what a worker takes in: each runs the very test without one protection, and sees it fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings import LogSettings
from processors.intake import Intake
from schemas.event import Priority
from tests.faults.broken.worker_takes_replies_for_granted import take_nothing
from tests.processors import test_intake as intake
from tests.processors.conftest import Starter
from tests.processors.conftest import log as log
from tests.processors.conftest import working as working
from tests.processors.test_intake import own_log as own_log
from tests.processors.test_intake import own_server as own_server
from tests.processors.waiting import unsettled


@pytest.mark.control("B7")
@pytest.mark.parametrize("priority", [Priority.URGENT, Priority.DEFAULT])
async def test_without_asking_for_them_entries_of_a_lost_reply_are_never_run(
    monkeypatch: pytest.MonkeyPatch, own_log: LogSettings, working: Starter, home: Path, priority: Priority
) -> None:
    monkeypatch.setattr(Intake, "take_unheard", take_nothing)
    monkeypatch.setattr("tests.processors.waiting.DEADLINE_S", 3.0)  # What is never run is not worth a long wait.

    with pytest.raises(TimeoutError):
        await intake.test_an_event_that_was_handed_out_in_a_reply_that_never_came_runs_once(own_log, working, home, priority)

    assert unsettled(own_log, home) == 1  # and the one that followed has run
