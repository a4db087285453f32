from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.running.initialise import initialise
from infra.running.status import Status, needs_of, show, summarise, with_books, with_spools
from infra.settings import FILE_NAME, LogSettings
from infra.spools import SpoolState
from infra.streams.books import SourceBooks
from infra.streams.ledger import Counts
from infra.streams.overview import GroupState, Overview
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.running.processes import run_module

READY: dict[str, bool | None] = {"receiver": True, "archive": True}


def a_group(name: str, *, undelivered: int = 0, lost: int = 0) -> GroupState:
    return GroupState(group=name, kind="durable", undelivered=undelivered, pending=0, oldest_ms=None, dead_letters=0, lost=lost)


def an_overview(*, accepted: int, archived: int, in_log: int, dead: int = 0, lost: int = 0) -> Overview:
    counts, groups = Counts(accepted={("demo", "github"): accepted}), [a_group("archive"), a_group("example", lost=lost)]
    return Overview(counts, groups=groups, archived_rows=archived, above_archived=in_log, open_dead_letters=dead)


def test_a_quiet_installation_needs_nobody() -> None:
    status = summarise(an_overview(accepted=10, archived=7, in_log=3), processes=READY)

    assert (status.accepted, status.archived, status.in_log, status.out_of_balance) == (10, 7, 3, 0)
    assert status.needs == []


def test_scheduled_events_are_a_term_of_the_books(capsys: pytest.CaptureFixture[str]) -> None:
    overview = an_overview(accepted=10, archived=5, in_log=2)
    overview.scheduled = 3

    status = summarise(overview, processes=READY)
    show(status)

    assert (status.scheduled, status.out_of_balance, status.needs) == (3, 0, [])
    assert capsys.readouterr().out.startswith("accepted 10 = archived 5 + in the log 2 + scheduled 3: the books balance")


def test_events_in_spools_are_accepted_and_a_term_of_the_books(capsys: pytest.CaptureFixture[str]) -> None:
    spools = [SpoolState("receiver-0", 3, 900, 1, 0, is_held=True), SpoolState("receiver-1", 0, 0, None, 0, is_held=False)]

    status = with_spools(summarise(an_overview(accepted=10, archived=8, in_log=2), processes=READY), spools=spools)
    show(status)

    assert (status.accepted, status.in_spools, status.out_of_balance, status.needs) == (13, 3, 0, [])
    assert capsys.readouterr().out.startswith("accepted 13 = archived 8 + in the log 2 + in spools 3: the books balance")


def test_a_spool_that_nobody_empties_and_a_damaged_one_ask_for_a_person() -> None:
    spools = [SpoolState("receiver-0", 3, 900, 1, 0, is_held=False), SpoolState("receiver-1", 0, 0, None, 2, is_held=True)]

    left, damaged = with_spools(summarise(an_overview(accepted=1, archived=1, in_log=0), processes=READY), spools=spools).needs

    assert left.startswith("3 events wait in the spool of receiver-0, and no receiver runs")
    assert damaged.startswith("the spool of receiver-1 has 2 damaged places")


def test_a_log_that_may_lose_the_last_second_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    show(replace(summarise(an_overview(accepted=1, archived=1, in_log=0), processes=READY), durability="relaxed"))

    assert capsys.readouterr().out.startswith("log.durability is relaxed: a crash or a power cut may lose the last seconds")


def test_a_source_that_anybody_may_send_to_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    show(replace(summarise(an_overview(accepted=1, archived=1, in_log=0), processes=READY), unsigned=["demo/open"]))

    assert capsys.readouterr().out.startswith("demo/open is unsigned: whoever knows its address can send")


def test_the_command_knows_which_sources_are_unsigned(home: Path, log: LogSettings) -> None:
    initialise(home)
    sources = {"open": {"scheme": "generic", "unsigned": True}, "github": {"scheme": "github", "secrets": ["file:secrets/demo-github"]}}
    (home / FILE_NAME).write_text(json.dumps({"log": {"url": log.url, "prefix": log.prefix}, "tenants": {"demo": {"sources": sources}}}))

    ended = run_module("infra.running.status", "--json", home=home)

    assert json.loads(ended.stdout)["unsigned"] == ["demo/open"]


def test_scheduled_events_that_are_gone_ask_for_a_person() -> None:
    overview = an_overview(accepted=10, archived=5, in_log=2)
    overview.lost_scheduled = 3

    (sentence,) = needs_of(overview, processes=READY)

    assert sentence.startswith("3 scheduled events were gone before their time came")


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({}, True),
        ({"idle_ms": 1_800_000}, False),
        ({"idle_ms": None}, False),
        ({"undelivered": 0}, False),
        ({"undelivered": 0, "pending": 1}, True),
        ({"undelivered": None}, True),
        ({"kind": "ephemeral"}, False),
        ({"group": "archive"}, False),
    ],
)
def test_a_durable_group_that_is_behind_and_left_alone_asks_for_a_person(changes: dict[str, Any], asks: bool) -> None:
    left_alone = replace(a_group("old", undelivered=5), **{"idle_ms": 9_000_000, **changes})
    overview = Overview(Counts(), groups=[left_alone])

    sentences = [sentence for sentence in needs_of(overview, processes=READY) if "has not read" in sentence]

    expected = "group old has not read for 2.5 h and is behind: run its worker, or `hooklake groups remove old`"
    assert sentences == ([expected] if asks else [])


def test_parked_entries_ask_for_a_worker_that_can_read_them() -> None:
    parked = replace(a_group("index"), parked=3)

    (need,) = summarise(Overview(Counts(), groups=[parked], archived_rows=0), processes={}).needs

    assert need.startswith("group index has 3 parked entries of a version that its workers cannot read: run one of a release that can")


def test_everything_that_does_not_heal_by_itself_asks_for_a_person() -> None:
    overview = an_overview(accepted=10, archived=5, in_log=3, dead=4, lost=2)

    needs = needs_of(overview, processes={"receiver": True, "archive": False})

    assert [sentence.split(":")[0] for sentence in needs] == [
        "archive is not ready",
        "4 dead letters wait for a decision",
        "group example lost 2 entries that were gone before it came to them",
        "2 accepted events are neither archived nor in the log; look again when nothing arrives, then audit",
    ]


def test_more_rows_than_events_are_out_of_balance_too() -> None:
    (sentence,) = needs_of(an_overview(accepted=10, archived=12, in_log=0), processes=READY)

    assert sentence.startswith("the archive has 2 rows more than were accepted")


async def test_the_command_counts_what_is_in_the_log(home: Path, log: LogSettings) -> None:
    initialise(home)
    stream = EventStream.open(log, home=home)
    event = an_event()
    for sent in (event, event, an_event()):
        await stream.append(sent)
    await stream.close()

    done = run_module("infra.running.status", "--json", home=home, LOG__URL=log.url, LOG__PREFIX=log.prefix)
    shown = run_module("infra.running.status", home=home, LOG__URL=log.url, LOG__PREFIX=log.prefix)

    status = json.loads(done.stdout)
    assert (status["accepted"], status["duplicates"], status["in_log"], status["out_of_balance"]) == (2, 1, 2, 0)
    assert status["processes"] == {"receiver": False, "worker-example": False, "archive": False}
    assert done.returncode == shown.returncode == 1
    assert shown.stdout.startswith("accepted 2 = archived unknown + in the log 2: the books balance; beside them 1 duplicates")


def test_a_process_that_cannot_be_asked_is_unknown_and_no_fault(home: Path, log: LogSettings) -> None:
    assert needs_of(an_overview(accepted=0, archived=0, in_log=0), processes={"receiver": True, "worker-example": None}) == []
    initialise(home)

    settings = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, "GROUPS__EXAMPLE__OPS_PORT": "0"}
    shown = run_module("infra.running.status", home=home, **settings)
    asked = run_module("infra.running.healthcheck", "worker", home=home, **settings)

    assert "worker-example: unknown (its ops_port is 0, so it cannot be asked)" in shown.stdout
    assert (asked.returncode, asked.stdout) == (1, "worker-example may be ready or not: its ops_port is 0, so it cannot be asked\n")


def books_of(*, missing: int, lost: int) -> Status:
    status = summarise(an_overview(accepted=10, archived=10 - lost, in_log=0), processes=READY)
    one = SourceBooks("demo", "git[red]hub", accepted=10, rows=10 - missing)
    return with_books(
        replace(status, missing=lost, out_of_balance=0, needs=[]), books={("demo", "github"): one}, in_spools=Counter(), is_whole=True
    )


def test_the_books_of_each_source_are_shown_with_the_terms_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    status = books_of(missing=1, lost=1)
    show(status)

    assert status.needs == []
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["tenant", "source", "accepted", "archived", "in", "log", "missing"] in lines
    assert ["demo", "git[red]hub", "10", "9", "0", "1"] in lines


def test_books_that_do_not_add_up_ask_for_a_person() -> None:
    (sentence,) = books_of(missing=2, lost=1).needs

    assert "do not add up" in sentence
