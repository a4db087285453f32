"""A log above its hard cap is given nothing more until there is room again: events wait in the spool. The control goes on appending."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings
from tests.faults.receiver_process import post, receiver
from tests.infra.running.processes import run_module, until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port

REAL, BROKEN = "ingest", "tests.faults.broken.receiver_minds_no_cap"


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("B8")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("B8")),
    ],
)
def test_a_log_above_its_hard_cap_is_given_nothing_until_there_is_room(tmp_path: Path, module: str, is_faithful: bool) -> None:
    home, server = tmp_path / "home", EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    initialise(home)
    server.start()
    operator = open_raw(LogSettings(url=server.url), home=home)
    deliveries = (f"d{number}" for number in itertools.count())
    with receiver(module, home=home, log_url=server.url) as hook:
        assert post(hook, home=home, delivery=next(deliveries)).status_code == 202
        operator.config_set("maxmemory", operator.info("memory")["used_memory"] * 10 // 9)  # about 90 % are used

        is_refused = spooled_within(30 if is_faithful else 4, posts=lambda: post(hook, home=home, delivery=next(deliveries)))

        assert is_refused is is_faithful
        if is_faithful:
            spooled = post(hook, home=home, delivery="spooled")
            status = run_module("infra.running.status", home=home, LOG__URL=server.url).stdout
            doctor = run_module("infra.running.doctor", home=home, LOG__URL=server.url)
            operator.config_set("maxmemory", "1gb")
            until(lambda: "spooled" not in post(hook, home=home, delivery=next(deliveries)).json(), what="the log takes events again")
            again = post(hook, home=home, delivery="spooled").json()
            assert (spooled.status_code, again["event_id"], again["duplicate"]) == (202, spooled.json()["event_id"], True)
            assert "above its hard cap and refuses events" in status.replace("\n", " ")
            assert (doctor.returncode, "events are refused" in doctor.stdout) == (1, True)
    operator.close()
    server.stop()


def spooled_within(seconds: float, *, posts: Callable[[], httpx.Response]) -> bool:
    """A receiver looks at the memory once a second: the control is given several times that."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if posts().json().get("spooled"):
            return True
        time.sleep(0.05)
    return False
