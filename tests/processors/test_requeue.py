"""`hooklake dead-letters`, run as an operator runs it, against a real log."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from tests.events import an_event
from tests.infra.running.processes import run_module
from tests.processors.conftest import Starter
from tests.processors.waiting import letters, until

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dead_letters(log: LogSettings, home: Path) -> Run:
    initialise(home)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        overrides = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, "LOG__SHARDS": str(log.shards)}
        return run_module("processors.requeue", *arguments, home=home, **overrides)

    return run


@pytest.fixture
async def dead(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> list[StreamEvent]:
    """Three events that group g gave up on."""

    @processor("*", max_attempts=1)
    async def fail(event: StreamEvent, delivery: Delivery) -> None:
        raise ValueError("[bold]no\x1b[31m\n way")

    events = [an_event(payload=bytes([n])) for n in range(3)]
    async with working(fail):
        await asyncio.gather(*[stream.append(event) for event in events])
        await until(lambda: len(letters(log, home)) == 3)
    return events


async def test_dead_letters_are_listed_for_people_and_for_machines(dead: list[StreamEvent], dead_letters: Run) -> None:
    for_people, for_machines = dead_letters("list"), dead_letters("list", "--json", "--limit", "2")

    assert for_people.returncode == for_machines.returncode == 0
    assert all(event.id in for_people.stdout for event in dead)
    assert "\x1b[31m" not in for_people.stdout  # foreign text cannot steer the operator's terminal
    listed = json.loads(for_machines.stdout)
    assert len(listed) == 2
    assert {letter["event_id"] for letter in listed} < {event.id for event in dead}
    assert {letter["state"] for letter in listed} == {"open"}


async def test_a_dead_letter_is_shown_with_its_event_and_its_reason(dead: list[StreamEvent], dead_letters: Run) -> None:
    shown = dead_letters("show", dead[1].id)

    letter = json.loads(shown.stdout)
    assert letter["event"]["id"] == dead[1].id
    assert (letter["event"]["payload"], letter["attempts"]) == ("AQ==", 1)
    assert "ValueError" in letter["traceback"]


async def test_a_requeued_event_runs_again_and_a_second_requeue_does_nothing(
    dead: list[StreamEvent], dead_letters: Run, working: Starter
) -> None:
    again: list[tuple[str, int]] = []

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        again.append((event.id, delivery.attempt))

    dry, first, second = (dead_letters("requeue", "--all", *more) for more in (("--dry-run",), (), ()))
    async with working(keep):
        await until(lambda: len(again) == 3)

    assert dry.stdout == "3 dead letters would be requeued\n"
    assert first.stdout == "3 of 3 dead letters requeued\n"
    assert second.stdout == "0 of 0 dead letters requeued\n"
    assert sorted(again) == sorted((event.id, 1) for event in dead)
    assert dead_letters("requeue", dead[0].id).stdout == "0 of 1 dead letters requeued (1 were requeued before)\n"
    assert dead_letters("list").stdout == "no open dead letters\n"
    assert len(json.loads(dead_letters("list", "--state", "requeued", "--json").stdout)) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("show", "nobody"), 1, "no dead letter is called nobody"),
        (("requeue",), 2, "name the dead letters to requeue, or say --all; nothing was requeued"),
        (("list", "--state", "closed"), 2, "--state closed is unknown"),
    ],
)
def test_a_wrong_argument_is_one_sentence(dead_letters: Run, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    ran = dead_letters(*arguments)

    assert ran.returncode == code
    assert sentence in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_log_that_is_away_is_exit_code_3(home: Path) -> None:
    initialise(home)

    ran = run_module("processors.requeue", "list", home=home)

    assert ran.returncode == 3
    assert "start it with `hooklake up`" in ran.stderr


async def test_a_group_that_the_log_does_not_know_is_no_empty_list(dead: list[StreamEvent], dead_letters: Run) -> None:
    for arguments in (["list", "--group", "h"], ["requeue", "--all", "--group", "h"]):
        ended = dead_letters(*arguments)

        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == "hooklake: --group h: the log knows no such group (known: g); nothing was done\n"
    assert dead_letters("list", "--group", "g").returncode == 0


def test_a_limit_below_one_is_refused(dead_letters: Run) -> None:
    ended = dead_letters("list", "--limit", "-5")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("hooklake: invalid value for '--limit': ")
