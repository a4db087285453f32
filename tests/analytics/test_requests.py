from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from analytics import acts
from analytics.acts import Desk
from analytics.archive import Archive
from analytics.chains import Chains
from analytics.requests import ANSWERS_KEPT_S, MOST_BEGINNINGS, Progress, Request, Requests, Result, Tell
from analytics.tables import Table
from infra.settings import LogSettings
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from schemas.errors import ConfigError, RequestFailed, Unavailable


@pytest.fixture
def requests(home: Path) -> Requests:
    return Requests(home)


@pytest.fixture
def chains(log: LogSettings, home: Path, telemetry: Telemetry) -> Iterator[Chains]:
    """Of an archive that has opened no table yet."""

    def opens(table: Table) -> Archive:
        raise AssertionError(f"{table.name} was opened")

    with closing(ArchiveLog.open(log, home=home)) as opened:
        yield Chains(opened, opens=opens, interval_ms=1000, telemetry=telemetry)


def test_a_request_waits_until_it_is_answered_and_its_answer_is_taken_once(requests: Requests) -> None:
    name = requests.ask("upkeep", arguments={"table": "events"})
    later = requests.ask("upkeep", arguments={})

    assert sorted([name, later]) == requests.waiting()
    assert requests.read(name).arguments == {"table": "events"}
    assert requests.take_answer(name) is None

    requests.answer(name, content={"result": {"files": 1}})
    assert requests.waiting() == [later]
    assert requests.take_answer(name) == {"files": 1}
    assert sorted(path.suffix for path in requests.folder.iterdir()) == [".asked"]


def test_a_request_is_synced_with_its_name_before_it_counts(requests: Requests, synced: list[str]) -> None:
    name = requests.ask("upkeep", arguments={})

    assert [Path(path).name for path in synced] == [f"{name}.asked.new", "requests"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"form": 2, "act": "upkeep"}', b"\xff", b"[]"])
def test_a_request_of_another_form_is_refused_with_a_sentence(
    requests: Requests, chains: Chains, telemetry: Telemetry, content: bytes
) -> None:
    name = requests.ask("upkeep", arguments={})
    (requests.folder / f"{name}.asked").write_bytes(content)

    Desk(requests, telemetry).serve(chains)

    with pytest.raises(ConfigError, match="of no form that this release knows"):
        requests.take_answer(name)
    assert requests.waiting() == []


def test_an_act_that_the_archive_does_not_know_is_refused(requests: Requests, chains: Chains, telemetry: Telemetry) -> None:
    name = requests.ask("dance", arguments={})

    Desk(requests, telemetry).serve(chains)

    with pytest.raises(ConfigError, match="knows nothing of 'dance'"):
        requests.take_answer(name)


def test_a_request_that_kills_the_archive_does_so_a_few_times_only(requests: Requests, chains: Chains, telemetry: Telemetry) -> None:
    name = requests.ask("upkeep", arguments={})
    for _ in range(MOST_BEGINNINGS):
        requests.begin(name)

    Desk(requests, telemetry).serve(chains)

    with pytest.raises(RequestFailed, match=f"died {MOST_BEGINNINGS} times over the request"):
        requests.take_answer(name)


def test_a_request_that_has_to_wait_keeps_no_other_waiting(
    requests: Requests, chains: Chains, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(_: Chains, request: Request, __: Tell) -> Result:
        if request.arguments["waits"]:
            raise Unavailable("not yet")
        return {}

    monkeypatch.setattr(acts, "ACTS", {"upkeep": act})
    waits, goes = (requests.ask("upkeep", arguments={"waits": waits}) for waits in (True, False))

    with pytest.raises(Unavailable, match="not yet"):
        Desk(requests, telemetry).serve(chains)

    assert requests.take_answer(goes) == {}
    assert requests.waiting() == [waits]


def test_what_is_unavailable_is_not_the_requests_fault(requests: Requests) -> None:
    name = requests.ask("upkeep", arguments={})
    for _ in range(MOST_BEGINNINGS + 1):
        requests.begin(name)
        requests.put_off(name)

    requests.begin(name)


@pytest.mark.parametrize(("code", "error"), [(1, RequestFailed), (2, ConfigError), (3, Unavailable)])
def test_an_error_keeps_its_exit_code(requests: Requests, code: int, error: type[Exception]) -> None:
    name = requests.ask("upkeep", arguments={})
    requests.answer(name, content={"error": "no", "exit_code": code})

    with pytest.raises(error, match="no"):
        requests.take_answer(name)


def test_progress_is_told_and_gone_with_the_answer(requests: Requests) -> None:
    name = requests.ask("upkeep", arguments={})
    assert requests.progress(name) is None

    requests.tell(name, progress=Progress("removing", 1, 3))
    assert requests.progress(name) == Progress("removing", 1, 3)

    requests.answer(name, content={"result": {}})
    assert requests.progress(name) is None


def test_an_answer_that_nobody_came_for_goes_after_a_day(requests: Requests) -> None:
    name = requests.ask("upkeep", arguments={})
    requests.answer(name, content={"result": {}})
    answer = requests.folder / f"{name}.answer"

    requests.clear(now_s=time.time())
    assert answer.exists()

    os.utime(answer, (0, time.time() - ANSWERS_KEPT_S - 1))
    requests.clear(now_s=time.time())
    assert not answer.exists()
