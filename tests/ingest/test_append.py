"""`hooklake append`, run as an operator runs it, against a real log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.running.moments import operator_name
from infra.settings import LogSettings, environment_with
from infra.streams.overview import read_overview
from schemas.event import StreamEvent
from tests.ingest.receivers import ROOT, write_home

Append = Callable[..., subprocess.CompletedProcess[str]]
Stored = Callable[[], dict[str, StreamEvent]]


@pytest.fixture
def append(receiver_home: Path) -> Append:
    def run(*arguments: str, piped: str = "") -> subprocess.CompletedProcess[str]:
        command, environment = [sys.executable, "-m", "ingest.append", *arguments], environment_with({"HOOKLAKE_HOME": str(receiver_home)})
        return subprocess.run(command, cwd=ROOT, env=environment, input=piped, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_an_event_is_appended_with_what_was_piped_in(append: Append, stored: Stored) -> None:
    done = append("ops.note", "--source", "github", "--file", "-", "--key", "k", "--json", piped='{"a": 1}')

    receipt = json.loads(done.stdout)
    event = stored()[receipt["event_id"]]
    assert (receipt["duplicate"], receipt["scheduled"], done.returncode) == (False, False, 0)
    assert (event.event_type, event.tenant_id, event.source, event.key) == ("ops.note", "demo", "github", "k")
    assert (event.payload, event.content_type) == (b'{"a": 1}', "application/json")
    assert (event.auth_context.scheme, event.auth_context.remote_address) == ("shell", operator_name())


def test_the_same_delivery_id_and_body_is_a_duplicate(append: Append, tmp_path: Path, stored: Stored) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\xff\x00")
    arguments = ("ops.note", "--source", "github", "--file", str(body), "--delivery-id", "note-1")
    before = len(stored())

    first, second = append(*arguments), append(*arguments)

    event_id = first.stdout.split()[0]
    assert first.stdout == f"{event_id} is appended\n"
    assert second.stdout == f"{event_id} was accepted before; nothing was appended\n"
    assert len(stored()) == before + 1
    assert (stored()[event_id].payload, stored()[event_id].content_type) == (b"\xff\x00", "application/octet-stream")


def test_an_event_can_be_made_to_wait(append: Append, stored: Stored, receiver_log: LogSettings, receiver_home: Path) -> None:
    before = read_overview(receiver_log, home=receiver_home).scheduled

    done = append("ops.note", "--source", "github", "--deliver-at", "+10m")

    assert "is accepted, and waits until " in done.stdout
    assert done.stdout.split()[0] not in stored()
    found = read_overview(receiver_log, home=receiver_home)
    assert (found.scheduled, found.out_of_balance) == (before + 1, 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ops.note", "--source", "nobody"), "tenants.demo.sources.nobody does not exist"),
        (("ops.note", "--tenant", "nobody"), "tenants.nobody does not exist"),
        (("ops.note",), "tenants.demo has several sources"),
        (
            ("ops.note", "--source", "github", "--deliver-at", "10m"),
            "--deliver-at 10m would be in the past: write +10m; nothing was appended",
        ),
        (("ops.note", "--source", "github", "--deliver-at", "soon"), "--deliver-at 'soon' is no time"),
        ((" ", "--source", "github"), "is no type of an event"),
        (("ops.note", "--source", "github", "--file", "/nowhere"), "--file /nowhere cannot be read (No such file or directory)"),
    ],
)
def test_a_wrong_argument_is_one_sentence_and_exit_code_2(append: Append, arguments: tuple[str, ...], sentence: str) -> None:
    done = append(*arguments)

    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_body_above_the_cap_of_its_source_is_refused(append: Append) -> None:
    done = append("ops.note", "--source", "github", "--file", "-", piped="x" * (26 * 1024 * 1024))

    assert done.returncode == 2
    assert "are allowed for this source; nothing was appended" in done.stderr


def test_a_log_that_is_away_is_exit_code_3(tmp_path: Path) -> None:
    home = write_home(tmp_path, log=LogSettings(url="redis://127.0.0.1:1/0"), ingest={})
    environment = environment_with({"HOOKLAKE_HOME": str(home)})

    command = [sys.executable, "-m", "ingest.append", "ops.note", "--source", "github"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
