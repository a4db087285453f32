"""`hooklake dead-letters`, run as an operator runs it, against a real log."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.running.initialise import initialise
from infra.running.moments import operator_name
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from tests.events import an_event
from tests.infra.running.processes import command_environment, run_module
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
        (("requeue",), 2, "name the dead letters, or say --all; nothing was done"),
        (("list", "--state", "closed"), 2, "--state closed is unknown"),
        (("list", "--since", "yesterday"), 2, "--since 'yesterday' is no time"),
        (("discard", "--all", "--yes"), 2, "discarding needs --because TEXT"),
        (("discard", "--all", "--because", "old"), 2, "say --yes where nobody can be asked; nothing was discarded"),
        (("requeue", "0-1-1", "--tenant", "demo"), 2, "filters choose among --all"),
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


async def test_a_discarded_letter_is_closed_with_a_record_of_who_and_why(dead: list[StreamEvent], dead_letters: Run) -> None:
    discarded = dead_letters("discard", dead[0].id, "--because", "a test account", "--json")
    again, requeued = dead_letters("discard", dead[0].id, "--because", "again"), dead_letters("requeue", dead[0].id)

    assert (discarded.returncode, json.loads(discarded.stdout)["discarded"]) == (0, 1)
    letter = json.loads(dead_letters("show", dead[0].id).stdout)
    assert (letter["state"], letter["because"]) == ("discarded", "a test account")
    assert letter["decided_by"] == operator_name()
    assert letter["decided_at"] is not None
    assert (again.returncode, again.stdout) == (1, "0 of 1 dead letters discarded (1 were discarded before)\n")
    assert (requeued.returncode, requeued.stdout) == (1, "0 of 1 dead letters requeued (1 were discarded before)\n")
    assert len(json.loads(dead_letters("list", "--json").stdout)) == 2


async def test_filters_choose_what_is_listed_and_what_is_done(dead: list[StreamEvent], dead_letters: Run) -> None:
    def listed(*filters: str) -> int:
        return len(json.loads(dead_letters("list", "--json", *filters).stdout))

    none = [("--type", "stripe.*"), ("--tenant", "x"), ("--source", "x"), ("--reason", "yes"), ("--until", "1h")]
    both = ("--type", "github.*", "--tenant", "demo", "--source", "github", "--reason", "no", "--since", "1h", "--until", "+1h")
    dry = json.loads(dead_letters("discard", "--all", "--dry-run", "--json", *both).stdout)
    limited = json.loads(dead_letters("discard", "--all", "--yes", "--because", "old", "--json", "--limit", "2", *both).stdout)

    assert [listed(*one) for one in none] == [0] * len(none)
    assert (dry["found"], dry["discarded"], dry["dry_run"]) == (3, 0, True)
    assert (limited["found"], limited["discarded"]) == (2, 2)
    assert listed(*both) == 1


def requeue_all_on_a_terminal(log: LogSettings, home: Path, *, answer: bytes) -> subprocess.CompletedProcess[str]:
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    command = [sys.executable, "-m", "processors.requeue", "requeue", "--all"]
    environment = command_environment(home, LOG__URL=log.url, LOG__PREFIX=log.prefix, LOG__SHARDS=str(log.shards))
    ran = subprocess.run(command, env=environment, stdin=theirs, capture_output=True, text=True, timeout=90, check=False)
    os.close(ours)
    os.close(theirs)
    return ran


async def test_on_a_terminal_all_is_asked_for_first(dead: list[StreamEvent], log: LogSettings, home: Path) -> None:
    initialise(home)

    ran = requeue_all_on_a_terminal(log, home, answer=b"n\n")

    assert "requeue 3 dead letters? [y/N]" in ran.stderr
    assert ran.stdout.strip() == "3 dead letters would be requeued"
    assert {letter.state for letter in letters(log, home)} == {"open"}
