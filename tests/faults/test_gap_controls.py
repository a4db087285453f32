"""Controls of what is counted before a group was handed it: each runs the very contract without one protection, and sees it fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from tests.contracts import test_undelivered as undelivered
from tests.faults.breaking import break_script
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.mark.control("D12")
async def test_without_counting_what_was_never_delivered_is_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    break_script(monkeypatch, "trim", ("count_undelivered(group, stood, stands[group], seen.lives, fresh)", ""))

    with pytest.raises(AssertionError, match=r"\[0, 0\] == \[7, 7\]"):
        await undelivered.test_what_was_trimmed_before_a_group_was_handed_it_is_counted_exactly_and_once(
            stream, pipeline, keys, client, log, home
        )


@pytest.mark.control("D12")
async def test_without_looking_again_what_is_removed_behind_a_look_is_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    break_script(monkeypatch, "trim", ("seen.walk.removed ~= removed and again <= most_walks", "false"))

    with pytest.raises(AssertionError, match=r"\[1, 1\] == \[5, 5\]"):
        await undelivered.test_what_is_removed_behind_a_look_that_takes_several_steps_is_counted_too(
            stream, pipeline, keys, client, log, home
        )


@pytest.mark.control("D12")
async def test_without_knowing_what_is_gone_already_it_is_counted_again(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    break_script(monkeypatch, "trim", ("without(found.gone, life.gone), found.gone", "found.gone, found.gone"))

    with pytest.raises(AssertionError, match="11 == 9"):
        await undelivered.test_what_was_deleted_in_the_middle_is_not_counted_again_when_the_rest_is_trimmed(
            stream, pipeline, keys, client, log, home
        )


@pytest.mark.control("D12")
async def test_without_minding_who_has_it_in_work_a_loss_is_counted_twice(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    break_script(monkeypatch, "trim", ("without_first(missed, handed_and_gone(group, stood, stands, lives))", "missed"))

    with pytest.raises(AssertionError, match=r"\[7, 7\] == \[3, 3\]"):
        await undelivered.test_what_is_in_work_when_it_is_trimmed_is_counted_by_whoever_has_it_and_not_twice(
            stream, pipeline, keys, client, log, home
        )


@pytest.mark.control("D12")
async def test_without_knowing_how_far_a_group_was_handed_a_stream_our_own_trim_is_taken_for_a_loss(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog
) -> None:
    handed = ("all_up_to(i == since and stood.number or 0)", "{}")
    break_script(monkeypatch, "trim", handed, ("begin_at(nearest(KEYS[1], 'XRANGE', '-', '+'), seen.lives)", ""))

    with pytest.raises(AssertionError, match="== 0"):
        await undelivered.test_our_own_trim_is_no_loss(stream, pipeline, keys, archive_log)
