"""Settings that change while events are in work: what is in hand finishes under the old ones, and settings that are not fit change
nothing. The control takes everything over without a look, and lets no child finish."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings import FILE_NAME, LogSettings
from tests.events import an_event
from tests.faults.worker_process import REAL, WorkerProcesses
from tests.infra.running.processes import until
from tests.processors.waiting import letters

BROKEN = "tests.faults.broken.worker_reloads_blindly"
# Each run leaves two lines, and ends when it is let go.
NOTES = """
import asyncio, os
from processors import processor

HERE = os.path.dirname(__file__)

def note(event, what):
    with open(os.path.join(HERE, "notes"), "a") as notes:
        notes.write(f"{what} {event.id}\\n")

async def act(event, by):
    note(event, f"{by} begins")
    while not os.path.exists(os.path.join(HERE, "let-go")):
        await asyncio.sleep(0.01)
    note(event, f"{by} ends")
"""
ONE = f"""{NOTES}
@processor("*")
async def one(event, delivery):
    await act(event, "one")
"""
TWO = f"""{NOTES}
@processor("github.push")
async def renamed(event, delivery):
    await act(event, "two")

@processor("github.fails")
async def fails(event, delivery):
    raise ValueError("it fails")
"""


class Reloaded(WorkerProcesses):
    """A worker whose group is described in the settings file."""

    def __init__(self, log: LogSettings, tmp_path: Path) -> None:
        super().__init__(log, tmp_path, code="")
        for name, code in {"one": ONE, "two": TWO, "broken": "raise RuntimeError('not today')"}.items():
            (self.code / f"{name}_module.py").write_text(code)
        self.write(module="one_module")

    def write(self, **group: Any) -> None:
        path = self.home / FILE_NAME
        settings = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**settings, "groups": {"g": {"block_ms": 50, **group}}}))

    def lines(self) -> list[str]:
        """`<module> begins|ends <event id>`"""
        path = self.code / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def ended(self) -> set[str]:
        return {line.split()[2] for line in self.lines() if " ends " in line}


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D16")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D16")),
    ],
)
def test_what_is_in_hand_finishes_under_the_settings_it_began_with(
    log: LogSettings, tmp_path: Path, module: str, is_faithful: bool, times: int
) -> None:
    reloaded = Reloaded(log, tmp_path)
    # The control's only one is sure to have something in hand when it is killed.
    with reloaded.worker(module, named="", children=2 if is_faithful else 1) as parent:
        first = reloaded.append([an_event() for _ in range(6 * times)])
        until(lambda: len(reloaded.lines()) >= len(first), what="all are in hand", within_s=60)

        reload(reloaded, parent, module="two_module", max_attempts=1)
        until(lambda: "is told to stop" in reloaded.said(), what="the new settings are found fit", within_s=60)
        between = reloaded.append([an_event() for _ in range(6)])
        (reloaded.code / "let-go").touch()
        until(lambda: "are in use" in reloaded.said(), what="the new settings are in use", within_s=60)
        after = reloaded.append([an_event() for _ in range(6)])
        failing = reloaded.append([an_event(event_type="github.fails")])
        reloaded.append([an_event(event_type="github.nobody.wants")])
        until(lambda: reloaded.ended() == {*first, *between, *after} and reloaded.unsettled == 0, what="everything is settled", within_s=60)

    begun = sorted(line.split()[2] for line in reloaded.lines() if " begins " in line)
    assert (begun == sorted([*first, *between, *after])) is is_faithful  # nobody was cut short
    assert {line.split()[0] for line in reloaded.lines() if line.split()[2] in after} == {"two"}
    assert [(letter.event_id, letter.attempts) for letter in letters(log, reloaded.home)] == [(failing[0], 1)]


UNFIT = {"unknown setting": {"modul": "two_module"}, "module that cannot be loaded": {"module": "broken_module"}}


@pytest.mark.fault("D16")
@pytest.mark.parametrize("what", UNFIT)
def test_settings_that_are_not_fit_change_nothing_not_even_for_a_child_that_dies(log: LogSettings, tmp_path: Path, what: str) -> None:
    keep_the_old_ones(log, tmp_path, REAL, unfit=UNFIT[what], within_s=60)


@pytest.mark.control("D16")
def test_without_a_look_a_module_that_cannot_be_loaded_takes_the_place_of_one_that_works(log: LogSettings, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the old ones stay"):
        keep_the_old_ones(log, tmp_path, BROKEN, unfit=UNFIT["module that cannot be loaded"], within_s=5)


def keep_the_old_ones(log: LogSettings, tmp_path: Path, module: str, *, unfit: dict[str, Any], within_s: float) -> None:
    reloaded = Reloaded(log, tmp_path)
    (reloaded.code / "let-go").touch()
    with reloaded.worker(module, named="") as parent:
        before = reloaded.append([an_event()])
        until(lambda: reloaded.ended() == set(before), what="it works", within_s=60)

        reload(reloaded, parent, **unfit)
        until(lambda: "and the old ones stay" in reloaded.said(), what="the old ones stay", within_s=within_s)
        (child,) = reloaded.children()
        os.kill(child, signal.SIGKILL)
        after = reloaded.append([an_event()])
        until(lambda: reloaded.ended() == {*before, *after}, what="the next child works as the one before", within_s=60)

    assert reloaded.said().count("and the old ones stay") == 1
    assert {line.split()[0] for line in reloaded.lines()} == {"one"}


def reload(reloaded: Reloaded, parent: subprocess.Popen[bytes], **group: Any) -> None:
    reloaded.write(**group)
    parent.send_signal(signal.SIGHUP)
