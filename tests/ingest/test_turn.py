"""Webhooks that come in one turn of the event loop share what can be shared, and nothing else: each has its own answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.acknowledged import Acknowledged
from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.gathering import MOST_EVENTS, Batch
from infra.streams.keys import Keys
from infra.streams.prepared import Form, Prepared, prepare
from infra.streams.seen import SeenWindow
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.answering import Answering
from ingest.answers import typed_answer
from ingest.app import App
from ingest.limits import InFlight
from ingest.noting import Noting
from ingest.receive import Receiver
from ingest.spool import Spool
from ingest.turn import Way, numbers_of
from tests.events import an_event
from tests.faults.breaking import break_script
from tests.infra.streams.raw import open_raw
from tests.ingest.inside import Written, arrived, exchange_of, receiver_inside
from tests.ingest.receivers import PATH, PUSH

DEADLINE_S = 20.0
KEYS, WINDOW = Keys("t:", 4), SeenWindow.parse("80h")


@pytest.fixture
async def noting(home: Path, telemetry: Telemetry) -> AsyncIterator[Noting]:
    spool = Spool.hold(home, max_bytes=1_000_000, clock=Clock())
    spool.start()
    yield Noting(spool.folder, clock=Clock(), telemetry=telemetry)
    await spool.close()


@pytest.fixture
async def inside(home: Path, log: LogSettings, telemetry: Telemetry, noting: Noting) -> AsyncIterator[Receiver]:
    stream, in_flight = EventStream.open(log, home=home), InFlight(2 * MOST_EVENTS, limit_bytes=10_000_000)
    receiver = receiver_inside(home, log=log, stream=stream, telemetry=telemetry, in_flight=in_flight, noting=noting)
    receiver.keeper._appender.watch.look()
    await answered_together(App(receiver), "before")  # Its connections are open, and what is behind them was looked at.
    assert receiver.keeper._appender.watch.is_proven
    yield receiver
    await stream.close()


async def answered_together(app: App, *deliveries: str, body: bytes = PUSH, keep_alive: bool = True) -> list[Written]:
    """The answers to requests that came in one turn, one for each delivery id."""
    clients = [Written() for _ in deliveries]
    for client, delivery in zip(clients, deliveries, strict=True):
        assert app.direct(arrived(body, x_github_delivery=delivery), exchange_of(client, keep_alive=keep_alive))
    async with asyncio.timeout(DEADLINE_S):
        for client in clients:
            await client.answered.wait()
    return clients


def said(client: Written) -> dict[str, Any]:
    return dict(json.loads(client.data.rpartition(b"\r\n")[2]))


def stored(log: LogSettings, home: Path) -> dict[str, str]:
    """The ids of all events on the log, by delivery id."""
    keys = Keys(log.prefix, log.shards)
    with open_raw(log, home=home) as client:
        entries = [fields for shard in keys.all_shards() for name in keys.event_streams(shard) for _, fields in client.xrange(name)]
    return {fields[b"delivery_id"].decode(): fields[b"id"].decode() for fields in entries}


async def test_each_is_answered_with_the_id_of_its_own_event(inside: Receiver, log: LogSettings, home: Path) -> None:
    deliveries = [f"d-{number}" for number in range(MOST_EVENTS + 3)]

    clients = await answered_together(App(inside), *deliveries)

    found = stored(log, home)
    assert {client.status for client in clients} == {202}
    assert [said(client) for client in clients] == [{"event_id": found[delivery], "duplicate": False} for delivery in deliveries]


async def test_the_log_has_the_first_ones_before_the_turn_is_over(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    app, sizes, really = App(inside), list[int](), inside.keeper._stream.begin

    def begin(batch: Batch) -> None:
        sizes.append(len(batch.events))
        really(batch)

    monkeypatch.setattr(inside.keeper._stream, "begin", begin)
    clients = [Written() for _ in range(MOST_EVENTS + 1)]
    for number, client in enumerate(clients):
        assert app.direct(arrived(x_github_delivery=f"d-{number}"), exchange_of(client))

    assert sizes == [MOST_EVENTS]
    async with asyncio.timeout(DEADLINE_S):
        for client in clients:
            await client.answered.wait()
    assert sizes == [MOST_EVENTS, 1]


async def test_the_answers_are_those_that_one_alone_would_have(inside: Receiver) -> None:
    app = App(inside)

    alone, (together, _), (closing, _) = (
        (await answered_together(app, "alone"))[0],
        await answered_together(app, "one", "other"),
        await answered_together(app, "third", "fourth", keep_alive=False),
    )

    heads = [client.data.rpartition(b"\r\n")[0] for client in (alone, together, closing)]
    assert heads[0] == heads[1] == heads[2].replace(b"connection: close\r\n", b"")
    assert [client.is_closed for client in (alone, together, closing)] == [False, False, True]


async def test_a_duplicate_among_new_ones_is_answered_with_the_first_id(inside: Receiver, log: LogSettings, home: Path) -> None:
    app = App(inside)

    first = said((await answered_together(app, "d-1"))[0])
    clients = await answered_together(app, "d-2", "d-1", "d-3", "d-3")

    found = stored(log, home)
    assert [said(client)["duplicate"] for client in clients] == [False, True, False, True]
    assert said(clients[1])["event_id"] == first["event_id"] == found["d-1"]
    assert said(clients[2])["event_id"] == said(clients[3])["event_id"] == found["d-3"]


@pytest.mark.parametrize("takes_at_once", [True, False])
async def test_a_fixed_answer_stands_for_every_receipt(inside: Receiver, monkeypatch: pytest.MonkeyPatch, takes_at_once: bool) -> None:
    app = App(inside)
    give_answering(app, Answering(fixed=typed_answer(200, b"thanks", content_type="text/plain")))
    monkeypatch.setattr(type(inside.keeper), "takes_at_once", takes_at_once)

    clients = [*await answered_together(app, "d-1"), *await answered_together(app, "d-1", "d-2")]

    assert [client.data.rpartition(b"\r\n")[2] for client in clients] == 3 * [b"thanks"]


@pytest.mark.parametrize("takes_at_once", [True, False])
async def test_a_status_of_its_own_comes_with_every_receipt(
    inside: Receiver, log: LogSettings, home: Path, monkeypatch: pytest.MonkeyPatch, takes_at_once: bool
) -> None:
    app = App(inside)
    give_answering(app, Answering(status=200))
    monkeypatch.setattr(type(inside.keeper), "takes_at_once", takes_at_once)

    clients = [*await answered_together(app, "d-1"), *await answered_together(app, "d-1", "d-2")]

    found = stored(log, home)
    assert [client.data.partition(b"\r\n")[0] for client in clients] == 3 * [b"HTTP/1.1 200 OK"]
    assert [said(client)["event_id"] for client in clients] == [found["d-1"], found["d-1"], found["d-2"]]


def give_answering(app: App, answering: Answering) -> None:
    """To the one source that there is."""
    source = replace(app._receiver.sources.by_route["demo", "github"], answering=answering)
    way = app.direct._ways[PATH.encode()]
    app.direct._ways[PATH.encode()] = Way(source, reader=way.reader, form=way.form)


async def test_events_with_other_windows_do_not_share_a_call(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    own, really_fill, really_begin, windows = SeenWindow.of_source("8h", log="80h"), Form.fill, inside.keeper._stream.begin, set[Any]()

    def fill(form: Form, event_id: str, **values: Any) -> Prepared:
        filled = really_fill(form, event_id, **values)
        return filled._replace(shard=0, window=own if values["delivery_id"] == "own" else filled.window)

    def begin(batch: Batch) -> None:
        windows.add((batch.window, frozenset(event.window for event in batch.events)))
        really_begin(batch)

    monkeypatch.setattr(Form, "fill", fill)
    monkeypatch.setattr(inside.keeper._stream, "begin", begin)
    await answered_together(App(inside), "d-1", "own", "d-2")

    assert windows == {(window, frozenset([window])) for window in (own, WINDOW)}


async def test_new_events_are_counted_and_their_numbers_noted_once(inside: Receiver, noting: Noting) -> None:
    deliveries = [f"d-{number}" for number in range(5)]

    await answered_together(App(inside), *deliveries)
    await answered_together(App(inside), "d-0", "d-5")
    await noting.write()

    books = Acknowledged.read(noting._folder)
    page = inside.telemetry.metrics_page().decode()
    assert books.accepted == {"demo:github": 7}  # with the one before all
    assert sum(number for number, _ in books.highest.values()) == 7
    assert 'queue_messages_produced_total{source="github",tenant="demo"} 7.0' in page


async def test_what_cannot_be_prepared_is_503_and_its_neighbours_are_kept(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    app, really = App(inside), Form.fill

    def fill(form: Form, event_id: str, **values: Any) -> Prepared:
        assert values["delivery_id"] != "odd"
        return really(form, event_id, **values)

    monkeypatch.setattr(Form, "fill", fill)
    clients = await answered_together(app, "d-1", "odd", "d-2")

    assert [client.status for client in clients] == [202, 503, 202]


async def test_a_bug_of_ours_after_the_append_is_503_for_each(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(inside)
    await inside.keeper._appender.watch.prove()
    monkeypatch.setattr(inside.telemetry, "produced", None)

    clients = await answered_together(app, "d-1", "d-2")

    assert [client.status for client in clients] == [503, 503]


async def test_a_call_that_cannot_be_made_is_503_for_each(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(inside)

    def begin(_: object) -> None:
        raise UnicodeError("what no server could be sent")

    with monkeypatch.context() as patch:
        patch.setattr(inside.keeper._stream, "begin", begin)
        clients = await answered_together(app, "d-1", "d-2")

    assert [client.status for client in clients] == [503, 503]
    assert [client.status for client in await answered_together(app, "d-1")] == [202]


@pytest.mark.parametrize("replies", ["{}", "{{}}", "{false}"])
async def test_a_reply_that_makes_no_sense_is_503_for_each(inside: Receiver, monkeypatch: pytest.MonkeyPatch, replies: str) -> None:
    break_script(monkeypatch, "append", ("return replies", f"return {replies}"))

    clients = [*await answered_together(App(inside), "d-1"), *await answered_together(App(inside), "d-2", "d-3")]  # The log knows it then.

    assert [client.status for client in clients] == [503, 503, 503]


async def test_a_time_that_no_calendar_has_is_503_for_each(inside: Receiver) -> None:
    app = App(replace(inside, clock=Clock(wall_ns=lambda: 10**21)))

    clients = await answered_together(app, "d-1", "d-2")

    assert [client.status for client in clients] == [503, 503]


async def test_nothing_is_held_when_all_are_answered(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(inside)

    with monkeypatch.context() as patch:
        patch.setattr(inside.key_use, "last_used", None)
        failed = await answered_together(app, "d-1", "d-2")
    await answered_together(app, "d-3", "d-3", "d-4")
    await answered_together(app, "d-5")

    assert [client.status for client in failed] == [503, 503]
    assert (inside.in_flight._count, inside.in_flight._bytes) == (0, 0)


async def test_at_level_debug_every_event_has_its_line(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Log:
        def debug(self, _: str, *, event_id: str, **__: object) -> None:
            lines.append(event_id)

    monkeypatch.setattr(inside.telemetry, "tells_all", True)
    monkeypatch.setattr(inside.telemetry, "log", Log())
    clients = await answered_together(App(inside), "d-1", "d-2")

    assert lines == [said(client)["event_id"] for client in clients]


async def test_a_server_that_nobody_has_looked_at_is_not_believed_at_once(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    watch = inside.keeper._appender.watch
    monkeypatch.setattr(watch, "_proven", -1)
    monkeypatch.setattr(type(watch), "look", lambda _: looks.append("look"))

    clients = await answered_together(App(inside), "d-1", "d-2")

    assert ([client.status for client in clients], looks) == ([202, 202], ["look"])


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        (b"%b7|1-1", 7),
        (b"%b7", 7),
        (b"%bx|1-1", None),
        (b"%b|1-1", None),
        (b"%b-1|1-1", None),
        (b"%b", None),
        (b"another event..%b7|1", None),
    ],
)
def test_only_a_reply_about_that_very_event_is_believed(reply: bytes, number: int | None) -> None:
    event = prepare(an_event(), keys=KEYS, window=WINDOW)
    its_id = bytes.fromhex(event.event_id.replace("-", ""))

    assert numbers_of([event], [reply % its_id]) == (None if number is None else [number])


def test_replies_in_another_order_or_number_are_not_believed() -> None:
    events = [prepare(an_event(), keys=KEYS, window=WINDOW) for _ in range(2)]
    replies: list[Any] = [bytes.fromhex(event.event_id.replace("-", "")) + b"1|1-1" for event in events]

    assert numbers_of(events, replies) == [1, 1]
    for others in (
        replies[::-1],
        replies[:1],
        [*replies, replies[0]],
        [replies[0], [b"first", b"default", b"i", b"1-1", b"duplicate"]],
        [],
    ):
        assert numbers_of(events, others) is None
