"""What is said of an installation whose log is away."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from infra.running.here import Here, look_here, show_here, spool_lines
from infra.running.initialise import initialise
from infra.running.status import Status, without_log
from infra.segments import Segment
from infra.settings import load_settings
from infra.spools import Folder, SpoolState
from tests.infra.running.processes import run_module

AT_MS = 1_768_478_460_000
WAITING = SpoolState("receiver-0", 3, 900, AT_MS, 0, is_held=True)
LEFT = SpoolState("receiver-1", 2, 80, AT_MS, 1, is_held=False)


@pytest.fixture
def spooled(home: Path) -> Path:
    """A home where three events wait for the log."""
    initialise(home)
    folder = Folder(home / "spool" / "receiver-0")
    folder.path.mkdir(parents=True)
    segment = Segment.new(folder.path, number=1)
    segment.path.write_bytes(segment.frame(b"payload", events=3, at_ms=AT_MS))
    return home


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a log that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


def away(silent: str) -> dict[str, tuple[dict[str, str], str]]:
    """How a log may be away, and what is said of it."""
    return {
        "embedded": ({}, "the embedded log is not running"),
        "refused": ({"LOG__URL": "redis://127.0.0.1:1/0"}, "the log "),
        "silent": ({"LOG__URL": silent, "LOG__TIMEOUT_MS": "300"}, "the log "),
    }


@pytest.mark.parametrize("how", ["embedded", "refused", "silent"])
def test_the_command_shows_what_waits_here_and_exits_with_3(spooled: Path, silent: str, how: str) -> None:
    settings, sentence = away(silent)[how]

    shown = run_module("infra.running.status", home=spooled, **settings)

    assert (shown.returncode, shown.stderr.count("\n")) == (3, 1)
    assert shown.stderr.startswith(f"hooklake: {sentence}")
    assert shown.stdout.splitlines() == [
        "the log does not answer, so nothing but this is known",
        "spool of receiver-0: 3 events (39 bytes) wait for the log, the oldest since 2026-01-15 12:01:00 UTC",
        "receiver: not ready",
        "worker-example: not ready",
        "archive: not ready",
        "! receiver is not ready: see logs/receiver.log, or `hooklake doctor`",
        "! worker-example is not ready: see logs/worker-example.log, or `hooklake doctor`",
        "! archive is not ready: see logs/archive.log, or `hooklake doctor`",
        "! 3 events wait in the spool of receiver-0, and no receiver runs that would append them: start one",
    ]


def test_machines_read_the_same_with_null_for_what_only_the_log_knows(spooled: Path) -> None:
    shown = run_module("infra.running.status", "--json", home=spooled)

    status = json.loads(shown.stdout)
    assert (shown.returncode, shown.stderr.count("\n")) == (3, 1)
    assert (status["in_spools"], status["accepted"], status["groups"], status["books"]) == (3, None, None, None)
    assert [(spool["receiver"], spool["events"], spool["oldest_ms"]) for spool in status["spools"]] == [("receiver-0", 3, AT_MS)]
    assert status["processes"] == {"receiver": False, "worker-example": False, "archive": False}
    assert "3 events wait in the spool of receiver-0" in status["needs"][-1]
    assert status["log_away"].startswith("the embedded log is not running")


def test_every_member_that_machines_read_is_there_also_without_the_log() -> None:
    read = without_log(Here(processes={}), reason="gone")

    assert set(read) == {*(one.name for one in fields(Status)), "in_spools", "log_away"}


def test_a_spool_whose_receiver_runs_asks_for_nobody_and_one_that_is_left_does() -> None:
    here = Here(processes={"receiver": True, "worker-example": None}, remarks=["receiver: older settings"], spools=[WAITING, LEFT])

    assert [sentence.split(",")[0] for sentence in here.needs] == [
        "receiver: older settings",
        "2 events wait in the spool of receiver-1",
        "the spool of receiver-1 has 1 damaged places: see `hooklake doctor`",
    ]
    assert here.in_spools == 5


def test_a_spool_with_nothing_in_it_has_no_line() -> None:
    assert spool_lines([SpoolState("receiver-0", 0, 0, None, 0, is_held=True)]) == []
    assert spool_lines([WAITING]) == [
        "spool of receiver-0: 3 events (900 bytes) wait for the log, the oldest since 2026-01-15 12:01:00 UTC"
    ]


def test_what_is_told_first_of_an_installation_is_told_without_its_log_too(capsys: pytest.CaptureFixture[str]) -> None:
    show_here(Here(processes={"receiver": True}, unsigned=["demo/open"], durability="relaxed"))

    assert capsys.readouterr().out.splitlines() == [
        "log.durability is relaxed: a crash or a power cut may lose the last seconds of what was accepted",
        "demo/open is unsigned: whoever knows its address can send",
        "the log does not answer, so nothing but this is known",
        "no events wait in spools",
        "receiver: ready",
    ]


def test_a_sentence_of_somebody_else_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_here(Here(processes={}, remarks=["tenants.demo.sources.a.encodings: write `[gzip]` there, not [/etc/x]"]))

    assert capsys.readouterr().out.splitlines()[-1].endswith("write `[gzip]` there, not [/etc/x]")


def test_a_spool_that_is_held_is_read_beside_its_receiver(spooled: Path) -> None:
    held = Folder(spooled / "spool" / "receiver-0").hold()

    here = look_here(load_settings(spooled))

    assert held is not None
    os.close(held)
    assert [(spool.events, spool.is_held) for spool in here.spools] == [(3, True)]
    assert not [sentence for sentence in here.needs if "spool" in sentence]
