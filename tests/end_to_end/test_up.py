"""`hooklake up` as a person meets it: it starts quickly, stops wholly, and finds everything again."""

from __future__ import annotations

import re
import signal
import subprocess
import time

from tests.end_to_end.installation import Installation

# Five times the three seconds that the README states: a deadline that catches a hang, not a benchmark.
ANSWERS_WITHIN_S = 15


def test_ctrl_c_stops_everything_and_a_second_up_finds_it_again(installation: Installation) -> None:
    first = installation.post(b"{}", delivery="before-the-restart")
    accepted = installation.status()["accepted"]

    assert installation.stop(signal.SIGINT) == 0  # and it left no process behind
    began = time.monotonic()
    installation.start()

    assert time.monotonic() - began < ANSWERS_WITHIN_S
    assert installation.status()["accepted"] == accepted
    again = installation.post(b"{}", delivery="before-the-restart")
    assert (again["event_id"], again["duplicate"]) == (first["event_id"], True)
    installation.until(installation.has_archived, "the event from before the restart is archived")


def test_the_printed_curl_line_can_be_pasted(installation: Installation) -> None:
    (line, *_) = re.findall(r"^curl .*$", installation.said(), flags=re.M)

    pasted = subprocess.run(["sh", "-c", f"{line} -w ' %{{http_code}}'"], capture_output=True, text=True, timeout=30, check=False)

    assert pasted.stdout.endswith("202"), pasted
    assert "event_id" in pasted.stdout


def test_a_second_up_on_the_same_home_is_refused(installation: Installation) -> None:
    second = installation.run("up")

    assert second.returncode == 2
    assert re.fullmatch(r"hooklake: HOOKLAKE_HOME=\S+ is in use by another `hooklake up` .*\n", second.stderr)
