"""Controls of replay and refill: each runs the very test of a contract on a script without one protection, and sees it fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.history import Histories
from infra.streams.keys import Keys
from infra.streams.owed import Owed
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import GroupReader
from infra.streams.replay import ReplayStream
from infra.streams.stream import EventStream
from tests.contracts import test_history as histories_of
from tests.contracts import test_refill as refilling
from tests.contracts import test_replay as replaying
from tests.contracts.test_history import histories as histories
from tests.contracts.test_refill import owed as owed
from tests.contracts.test_replay import reader as reader
from tests.contracts.test_replay import replay_stream as replay_stream
from tests.contracts.test_replay import replays as replays
from tests.faults.breaking import break_script
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream

pytestmark = pytest.mark.control("REPLAY")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("progress ~= ARGV[3]", "false"), id="nobody is asked how far it has come"),
        pytest.param(("redis.call('HSET', KEYS[2], field, progress)", ""), id="it is not written down"),
    ],
)
async def test_a_replay_that_does_not_know_how_far_it_is_hands_events_twice(
    monkeypatch: pytest.MonkeyPatch, reader: GroupReader, replay_stream: ReplayStream, log: LogSettings, home: Path, change: tuple[str, str]
) -> None:
    break_script(monkeypatch, "replay", change)

    with pytest.raises(AssertionError):
        await replaying.test_whoever_repeats_a_call_hands_nothing_twice(reader, replay_stream, log, home)


async def test_a_replay_without_a_limit_fills_the_log(
    monkeypatch: pytest.MonkeyPatch, reader: GroupReader, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path, client: Any
) -> None:
    break_script(monkeypatch, "replay", ("return most - redis.call('XLEN', stream)", "return 1000000"))

    with pytest.raises(AssertionError):
        await replaying.test_no_more_than_the_limit_wait_for_the_group(reader, pipeline, keys, log, home, client)


async def test_a_replay_with_the_clocks_own_ids_lets_fence_tokens_fall(
    monkeypatch: pytest.MonkeyPatch, reader: GroupReader, replay_stream: ReplayStream, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "replay", ("'XADD', stream, id_above(stream, origin, now_ms), ...", "'XADD', stream, '*', ..."))

    with pytest.raises(AssertionError):
        await replaying.test_fence_tokens_grow_also_when_the_clock_was_set_back("the entry it had", reader, replay_stream, keys, client)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("value_of(field) ~= before", "false"), id="nobody is asked what is owed still"),
        pytest.param(("redis.call('HSET', KEYS[2], field, values[field])", ""), id="what is owed is not shortened"),
    ],
)
async def test_a_refill_that_does_not_know_what_is_owed_gives_events_twice(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed,
    change: tuple[str, str],
) -> None:  # fmt: skip
    break_script(monkeypatch, "refill", change)

    with pytest.raises(AssertionError):
        await refilling.test_whoever_repeats_a_call_gives_nothing_twice(stream, pipeline, keys, client, archive_log, owed)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("begin_history", ("id, added = value(info, 'last-generated-id')", "id, added = '0-0'"), id="at the start"),
        pytest.param("begin_history", ("local number = given(KEYS[2], name_of(stream), incarnation)", "local number = 0"), id="no mark"),
    ],
)
async def test_a_group_that_is_made_elsewhere_than_its_marks_has_a_gap_or_an_overlap(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, histories: Histories, archive_log: ArchiveLog,
    name: str, change: tuple[str, str],
) -> None:  # fmt: skip
    break_script(monkeypatch, name, change)

    with pytest.raises(AssertionError):
        await histories_of.test_the_group_is_handed_what_comes_after_its_marks_and_nothing_before(
            stream, pipeline, keys, histories, archive_log
        )
