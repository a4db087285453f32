"""Controls of erasing: each runs the very contract without one protection, and sees it fail."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from infra.streams.erasing import Erasing
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.rebuild import Rebuilding
from infra.streams.stream import EventStream
from tests.contracts import test_erase as erase
from tests.contracts import test_rebuild as rebuild
from tests.contracts.test_erase import erasing as erasing
from tests.contracts.test_erase import log as log
from tests.contracts.test_rebuild import Between, Users
from tests.contracts.test_rebuild import between as between
from tests.contracts.test_rebuild import key as key
from tests.contracts.test_rebuild import rebuilding as rebuilding
from tests.contracts.test_rebuild import users as users
from tests.faults.breaking import break_script
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream


@pytest.mark.control("F2")
async def test_without_noting_what_went_groups_count_it_as_lost(
    monkeypatch: pytest.MonkeyPatch,
    stream: EventStream,
    pipeline: Pipeline,
    keys: Keys,
    client: Any,
    archive_log: ArchiveLog,
    erasing: Erasing,
) -> None:
    break_script(
        monkeypatch,
        "erase_events",
        ("seen.removed = seen.removed + removed", ""),
        ("life.gone = together(life.gone, ranges)", ""),
    )

    with pytest.raises(AssertionError, match=r"\[0, [1-9]\] == \[0, 0\]"):
        await erase.test_what_was_erased_is_no_loss_to_a_group_and_its_numbers_are_written_down(
            stream, pipeline, keys, client, archive_log, erasing
        )


@pytest.mark.control("F2")
def test_without_a_look_at_how_many_there_are_a_deleted_entry_comes_back(
    monkeypatch: pytest.MonkeyPatch, client: Any, key: str, rebuilding: Rebuilding, users: Users, between: Between
) -> None:
    break_script(monkeypatch, "rebuild", ("if redis.call('XLEN', KEYS[2]) ~= value(info, 'length') then", "if false then"))

    with pytest.raises(AssertionError):
        rebuild.test_what_is_deleted_while_a_stream_is_built_anew_does_not_come_back(client, key, rebuilding, users, between)


@pytest.mark.control("F2")
def test_without_a_look_at_the_newest_id_the_copy_of_one_stream_is_offered_for_another(
    monkeypatch: pytest.MonkeyPatch, client: Any, key: str, rebuilding: Rebuilding, users: Users, between: Between
) -> None:
    break_script(monkeypatch, "rebuild", ("return added >= tonumber(ARGV[3]) and not below(place(newest), place(ARGV[4]))", "return true"))

    with pytest.raises(ResponseError, match="XSETID"):  # the server itself refuses to call the copy of the one the other
        rebuild.test_another_stream_under_the_same_name_is_not_replaced_by_the_copy_of_the_first(client, key, rebuilding, users, between)
