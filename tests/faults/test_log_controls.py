"""Controls of the log's contracts: each runs the very test of a fault row on a log without one protection, and sees it fail.

On the embedded server only: what is shown is that the test can fail, not what a server does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import pipelining
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.prepared import Prepared
from infra.streams.ranges import ArchiveLog
from infra.streams.scripts import script
from infra.streams.stream import EventStream
from infra.streams.wire import Wire
from schemas.errors import StreamUnavailable
from schemas.event import StreamEvent
from schemas.receipt import Receipt
from tests.contracts import test_append as appending
from tests.contracts import test_append_parts as appending_parts
from tests.contracts import test_dead_letters as requeueing
from tests.contracts import test_healing as healing
from tests.contracts import test_leases as leasing
from tests.contracts import test_reap as reaping
from tests.contracts import test_retries as retrying
from tests.contracts import test_settle as settling
from tests.contracts import test_unavailable as unavailable
from tests.contracts.servers import server_kinds
from tests.contracts.test_dead_letters import dead_letters as dead_letters
from tests.contracts.test_healing import acts as acts
from tests.events import an_event
from tests.faults.breaking import break_script
from tests.infra.streams.deliveries import GIVE_UP
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import own_archive_log as own_archive_log
from tests.logs import own_client as own_client
from tests.logs import own_log as own_log
from tests.logs import own_pipeline as own_pipeline
from tests.logs import own_stream as own_stream
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream
from tests.ports import free_port

LOOKS_IN_SEEN = ("local first, is_known, stale = find(number, marker, marker)", "local first, is_known, stale")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "own", free_port(), password="a-test-password")
    server.start()
    yield server
    server.kill()


@pytest.mark.control("A7")
async def test_without_a_look_in_seen_every_delivery_is_an_event(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, client: Any, keys: Keys
) -> None:
    break_script(monkeypatch, "append", LOOKS_IN_SEEN)

    with pytest.raises(AssertionError, match="2 == 1"):
        await appending.test_concurrent_first_deliveries_make_one_entry(stream, client, keys)


@pytest.mark.control("A8")
async def test_without_a_look_at_the_body_another_one_is_dropped(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, client: Any, keys: Keys
) -> None:
    break_script(monkeypatch, "append", ("if first and string.sub(first, 17, 24) == digest then", "if first then"))

    with pytest.raises(AssertionError, match="True, False"):
        await appending.test_the_same_delivery_id_with_another_body_is_stored_once_and_flagged(stream, client, keys)


@pytest.mark.control("A4")
async def test_parts_that_are_left_where_a_later_one_failed_are_half_a_body(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, client: Any, keys: Keys
) -> None:
    break_script(monkeypatch, "append", ("redis.call('XDEL', KEYS[1 + stream_of(ARGV[starts[fresh[j]]])], entry_ids[fresh[j]])", ""))

    with pytest.raises(AssertionError, match="5 == 4"):
        await appending_parts.test_parts_of_which_a_later_one_cannot_be_added_leave_nothing_behind(stream, client, keys)


@pytest.mark.control("A4")
async def test_parts_that_are_appended_one_by_one_are_half_a_body_after_a_power_cut(
    monkeypatch: pytest.MonkeyPatch, own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    async def one_by_one(stream: EventStream, events: list[StreamEvent]) -> list[Receipt]:
        return [await stream.append(event) for event in events]

    monkeypatch.setattr(EventStream, "append_parts", one_by_one)

    with pytest.raises(AssertionError, match="d1"):
        await appending_parts.test_a_server_that_wrote_down_half_of_a_body_has_nothing_of_it_when_it_is_back(own_server, own_log, home)


@pytest.mark.control("B4")
async def test_without_a_deadline_for_replies_a_hanging_server_is_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, own_server: EmbeddedServer, own_stream: EventStream, own_archive_log: ArchiveLog
) -> None:
    monkeypatch.setattr(Wire, "_check_head", lambda _wire: None)
    monkeypatch.setattr(unavailable, "DEADLINE_S", 5)

    with pytest.raises(TimeoutError):
        await unavailable.test_a_server_that_hangs_is_given_up_in_time_and_found_again(own_server, own_stream, own_archive_log)


@pytest.mark.control("B6")
async def test_without_a_look_in_seen_an_append_whose_reply_was_cut_is_there_twice(
    monkeypatch: pytest.MonkeyPatch, own_server: EmbeddedServer, own_log: LogSettings, own_client: Any, home: Path
) -> None:
    break_script(monkeypatch, "append", LOOKS_IN_SEEN)

    with pytest.raises(AssertionError, match="Left contains"):
        await unavailable.test_an_append_whose_reply_is_cut_anywhere_is_there_once_when_it_is_sent_again(
            own_server, own_log, own_client, home, "limit_data"
        )


@pytest.mark.control("B7")
async def test_calls_of_a_cut_connection_that_are_answered_by_another_reply_are_noticed(
    monkeypatch: pytest.MonkeyPatch, own_server: EmbeddedServer, own_log: LogSettings, own_client: Any, home: Path
) -> None:
    monkeypatch.setattr(pipelining, "Wire", WireThatMixesReplies)
    monkeypatch.setattr(Prepared, "is_meant", lambda _event, _id: True)  # the second look at it

    with pytest.raises(AssertionError, match="all"):
        await unavailable.test_no_reply_of_a_cut_pipeline_is_taken_for_that_of_another_append(own_server, own_log, own_client, home)


class WireThatMixesReplies(Wire):
    """When the connection is cut, gives the last reply that it has read to the call after it."""

    _heard: Any = None

    def _answer(self, call: Any, reply: Any) -> None:
        self._heard = reply if isinstance(reply, list) else self._heard
        super()._answer(call, reply)

    def discard(self, why: str) -> None:
        if self._waiting and self._heard and not self._waiting[0].future.done():
            self._waiting[0].future.set_result(self._heard)
        super().discard(why)


@pytest.mark.control("B8")
async def test_a_settle_script_that_adds_before_it_removes_fails_when_the_memory_is_full(
    monkeypatch: pytest.MonkeyPatch, own_stream: EventStream, own_pipeline: Pipeline, own_client: Any, own_log: LogSettings
) -> None:
    early = "local function give_up(id, parts)\n    local fields = event_fields(id)\n    remove(id)"
    late = "redis.call('XADD', KEYS[5], '*', unpack(letter))"
    break_script(monkeypatch, "settle", (early, early.removesuffix("\n    remove(id)")), (late, f"{late}\n    remove(id)"))

    with pytest.raises(StreamUnavailable, match="OOM"):
        await settling.test_settling_works_when_the_servers_memory_is_full(own_stream, own_pipeline, own_client, own_log, GIVE_UP)


def unchecked(reply: Any) -> Any:
    """In the place of `checked`: an error reply is taken for an answer."""
    return reply


@pytest.mark.control("B12")
async def test_error_replies_that_are_taken_for_answers_are_a_crash(
    monkeypatch: pytest.MonkeyPatch, own_stream: EventStream, own_archive_log: ArchiveLog, own_client: Any
) -> None:
    monkeypatch.setattr(pipelining, "checked", unchecked)

    with pytest.raises(TypeError):
        await unavailable.test_a_server_that_will_not_serve_is_unavailable_for_as_long_as_it_will_not(
            server_kinds()[0], own_stream, own_archive_log, own_client, "NOREPLICAS", unavailable.primary_without_replicas
        )


@pytest.mark.control("B14")
async def test_without_the_text_of_a_script_a_flush_of_scripts_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, archive_log: ArchiveLog, client: Any
) -> None:
    await stream.append(an_event())
    archive_log.ends()  # from here on the server knows the scripts

    monkeypatch.setattr(pipelining, "script", lambda name: replace(script(name), text="return redis.error_reply('NOSCRIPT')"))

    with pytest.raises(StreamUnavailable, match="NOSCRIPT"):
        await healing.test_a_flush_of_the_scripts_is_survived_by_both_clients(stream, archive_log, client)


@pytest.mark.control("D1")
async def test_a_take_over_that_is_not_counted_is_noticed(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys
) -> None:
    break_script(monkeypatch, "claim", ("if ARGV[5] == 'uncounted' then", "if true then"))

    with pytest.raises(AssertionError):
        await leasing.test_deliveries_of_a_dead_consumer_are_taken_over_one_at_a_time_and_counted(stream, pipeline, keys)


@pytest.mark.control("D8")
async def test_a_promotion_that_forgets_to_remove_comes_back_more_than_once(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "promote", ("redis.call('ZREM', KEYS[1], member)", ""), ("redis.call('HDEL', KEYS[2], member)", ""))

    with pytest.raises(AssertionError, match="50 == 5"):
        await retrying.test_what_is_due_comes_back_once_however_many_promote_it(stream, pipeline, keys, client)


@pytest.mark.control("D9")
async def test_reaping_whoever_is_silent_takes_what_they_hold(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "reap", ("facts.pending == 0 and ", ""))

    with pytest.raises(AssertionError, match="holder"):
        await reaping.test_a_silent_consumer_that_holds_nothing_is_removed_and_one_that_holds_something_is_not(
            stream, pipeline, keys, client
        )


@pytest.mark.control("D11")
async def test_a_wrong_type_that_is_taken_for_an_answer_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, acts: dict[str, healing.Act], keys: Keys, client: Any
) -> None:
    monkeypatch.setattr(pipelining, "checked", unchecked)

    with pytest.raises(AssertionError, match="TypeError"):
        await healing.test_a_key_that_was_replaced_by_a_string_is_unavailable_until_it_is_gone(acts, keys, client, "events:default")


@pytest.mark.control("D12")
async def test_without_counting_what_was_trimmed_beneath_a_group_is_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "claim", ("redis.call('HINCRBY', ledger, 'lost:' .. group, 1)", ""))

    with pytest.raises(AssertionError, match="b'8'"):
        await healing.test_every_delivery_that_was_trimmed_beneath_a_group_is_counted_as_lost_once(stream, pipeline, keys, client)


@pytest.mark.control("D12")
async def test_without_its_names_what_was_trimmed_beneath_a_group_cannot_be_found_again(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "claim", ("if type(known) == 'number' and known < 10000 then", "if false then"))

    with pytest.raises(AssertionError, match="events:default"):
        await healing.test_every_delivery_that_was_trimmed_beneath_a_group_is_counted_as_lost_once(stream, pipeline, keys, client)


@pytest.mark.control("D12")
async def test_renewing_what_was_trimmed_takes_it_from_whoever_runs_it(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "renew", ("elseif is_there(id) then", "else"))

    with pytest.raises(AssertionError):
        await leasing.test_renewing_a_lease_leaves_one_whose_entry_was_removed_to_whoever_runs_it(stream, pipeline, keys, client, "trim")


@pytest.mark.control("D13")
async def test_without_the_letter_s_state_it_is_requeued_twice(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    break_script(monkeypatch, "requeue", ("    if state then", "    if false then"))

    with pytest.raises(AssertionError, match="already"):
        await requeueing.test_a_dead_letter_says_why_and_can_be_requeued_once(stream, pipeline, keys, dead_letters, client)
