"""A group whose dead letters are at their cap takes in no more until somebody decides. The control fills the log with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from tests.events import an_event
from tests.faults.worker_process import WorkerProcesses
from tests.infra.running.processes import run_module, until
from tests.infra.streams.raw import open_raw

REAL, BROKEN = "processors.child", "tests.faults.broken.worker_fills_dead_letters"
CAP = 10
# Slow enough for the cap to be noticed long before all of them are given up.
REJECTING = """
import asyncio
from processors import Reject, processor

@processor("*")
async def act(event, delivery):
    await asyncio.sleep(0.05)
    raise Reject("never any of these")
"""


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 2})


@pytest.mark.parametrize(
    ("module", "is_bounded"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D14")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D14")),
    ],
)
def test_dead_letters_stop_at_their_cap_and_go_on_when_somebody_has_decided(
    log: LogSettings, tmp_path: Path, module: str, is_bounded: bool, times: int
) -> None:
    workers, many = WorkerProcesses(log, tmp_path, code=REJECTING), 200 * times
    sent = workers.append([an_event() for _ in range(many)])
    of_letters = {"HOOKLAKE_DEAD_LETTERS__CAP": str(CAP)}
    with workers.worker(module, environment=of_letters, concurrency=2, batch_size=4):
        until(lambda: "at their cap" in workers.said() or len(workers.dead) == many, what="the cap, or the end, is reached", within_s=120)
        if is_bounded:
            until(lambda: in_hand(log, home=workers.home) == 0, what="what was in hand is settled")
            first = len(workers.dead)
            assert CAP <= first < many
            status = run_module("infra.running.status", home=workers.home, **log_of(log), DEAD_LETTERS__CAP=str(CAP))
            doctor = run_module("infra.running.doctor", home=workers.home, **log_of(log), DEAD_LETTERS__CAP=str(CAP))
            assert (len(workers.dead), len(workers.dead) + workers.unsettled) == (first, many)  # nothing is taken in meanwhile, nor lost
            assert (status.returncode, "its workers take in nothing" in status.stdout.replace("\n", " ")) == (1, True)
            assert (doctor.returncode, "fail  dead letters" in doctor.stdout) == (1, True)
            discard_all(log, home=workers.home)
            until(lambda: len(workers.dead) > first, what="it goes on")

    assert (len(workers.dead) < many) is is_bounded
    assert set(workers.dead) <= set(sent)


def log_of(log: LogSettings) -> dict[str, str]:
    return {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, "LOG__SHARDS": str(log.shards)}


def in_hand(log: LogSettings, *, home: Path) -> int:
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    pending = sum(group["pending"] for stream in streams for group in client.xinfo_groups(stream))
    client.close()
    return int(pending)


def discard_all(log: LogSettings, *, home: Path) -> None:
    letters = DeadLetters.open(log, home=home)
    for letter in list(letters.letters(state="open")):
        assert letters.discard(letter, by="a test", because="enough") == "discarded"
    letters.close()
