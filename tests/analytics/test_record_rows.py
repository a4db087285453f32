from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from analytics.decoders import DECODERS
from analytics.record_rows import outcomes_in
from infra.streams.entries import Entry, encode
from infra.streams.outcomes import pack
from infra.streams.quarantine import encode_request
from schemas.outcome import Ran
from tests.contracts.test_quarantine import a_refused_request
from tests.events import an_event

NUMBERED = {b"incarnation": b"a", b"sequence": b"7"}
ENTRY_ID = "1700000000000-3"


def rows(table: str, *entries: Entry) -> list[dict[str, Any]]:
    return [row for batch in DECODERS[table].batches(list(entries), stream="2:stream") for row in batch.to_pylist()]


def flat(values: list[Any]) -> dict[bytes, bytes]:
    texts = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def a_letter(**changes: bytes) -> Entry:
    own = {
        b"record": b"letter", b"group": b"g", b"from": b"hooklake:{2}:retry:g", b"from_entry": b"5-0", b"processor": b"m:f",
        b"reason": b"failed 4 times", b"error": b"ValueError: x", b"attempts": b"4", b"dead_at": b"1700000000123",
    }  # fmt: skip
    event = flat(encode(an_event(id=EVENT, payload=b"\x00\xff")))
    return Entry(ENTRY_ID, {**own, **event, **NUMBERED, **{name.encode(): value for name, value in changes.items()}})


EVENT = "01900000-0000-7000-8000-000000000000"


def a_settled_batch(*runs: tuple[Ran, str], lost: bytes = b"", refused: bytes = b"") -> Entry:
    fields = {b"record": b"outcomes", b"group": b"g", b"consumer": b"c", b"stream": b"hooklake:{2}:events:default", b"lost": lost}
    return Entry(ENTRY_ID, {**fields, b"refused": refused, b"batch": pack(runs), **NUMBERED})  # type: ignore[arg-type]


def test_a_dead_letter_is_a_row_with_the_bytes_of_its_event() -> None:
    (row,) = rows("dead_letters", a_letter())

    assert (row["record"], row["letter_id"], row["group_name"], row["attempts"]) == ("letter", f"2-{ENTRY_ID}", "g", 4)
    assert (row["event_id"], row["tenant_id"], row["body"], row["state"]) == (EVENT, "demo", b"\x00\xff", None)
    assert (row["stream"], row["incarnation"], row["sequence"], row["entry_id"]) == ("2:stream", "a", 7, ENTRY_ID)
    assert row["dead_at"] == datetime.fromtimestamp(1_700_000_000.123, tz=UTC)
    assert (row["recorded_at"], row["decode_error"]) == (datetime.fromtimestamp(1_700_000_000, tz=UTC), None)


def test_a_letter_whose_entry_was_no_event_says_why_and_keeps_its_bytes() -> None:
    (row,) = rows("dead_letters", a_letter(version=b"99"))

    assert (row["letter_id"], row["reason"], row["body"]) == (f"2-{ENTRY_ID}", "failed 4 times", None)
    assert "version" in row["decode_error"]
    assert base64.b64decode(orjson.loads(row["raw_entry"])["payload"]) == b"\x00\xff"


def test_a_decision_is_a_row_that_names_its_letter() -> None:
    said = {b"record": b"state", b"of": b"9-1", b"state": b"discarded", b"by": b"ann@desk", b"group": b"g", b"because": b"a test"}
    (row,) = rows("dead_letters", Entry(ENTRY_ID, {**said, **NUMBERED}))

    assert (row["record"], row["letter_id"], row["group_name"]) == ("state", "2-9-1", "g")
    assert (row["state"], row["decided_by"], row["because"], row["event_id"]) == ("discarded", "ann@desk", "a test", None)


def test_every_delivery_that_was_settled_is_a_row_and_those_that_came_to_nothing_are_none() -> None:
    runs = [Ran(f"event-{number}", "m:f", number, 1_700_000_000_000 + number, 2.5) for number in (1, 2, 3)]
    batch = a_settled_batch((runs[0], "ack"), (runs[1], "retry"), (runs[2], "ack"), lost=b"2", refused=b"3")

    first, second = rows("outcomes", batch)

    assert (first["kind"], first["event_id"], first["step"], first["attempt"], first["place"]) == ("outcome", "event-1", "ack", 1, 1)
    assert (second["event_id"], second["step"], second["duration_ms"], second["place"]) == ("event-3", "dead_letter", 2.5, 2)
    assert (first["from_stream"], first["group_name"], first["consumer"]) == ("hooklake:{2}:events:default", "g", "c")
    assert outcomes_in(batch) == 2


def test_an_alias_is_a_row_of_its_kind() -> None:
    said = {b"record": b"alias", b"event_id": b"later", b"first_id": b"first", b"tenant_id": b"demo", b"source": b"github"}
    (row,) = rows("outcomes", Entry(ENTRY_ID, {**said, **NUMBERED}))

    assert (row["kind"], row["event_id"], row["first_id"], row["tenant_id"], row["step"]) == ("alias", "later", "first", "demo", None)


def test_a_refused_request_and_the_decision_about_it_are_rows() -> None:
    request = a_refused_request()
    kept = Entry("5-0", {b"record": b"request", b"size": b"9", **flat(encode_request(request)), **NUMBERED})
    said = {b"record": b"state", b"of": b"5-0", b"state": b"released", b"by": b"ann@desk", b"tenant_id": b"demo", b"source": b"github"}
    decision = Entry("6-0", {**said, b"because": b"", b"event_id": b"the-event", **NUMBERED})

    first, second = rows("quarantine", kept, decision)

    assert (first["request_id"], first["event_id"], first["code"]) == ("2-5-0", request.event_id, "bad_signature")
    assert (first["body"], dict(first["headers"]), first["removed_headers"]) == (request.body, request.headers, ["cookie"])
    assert first["received_at"] == request.received_at
    assert (second["request_id"], second["state"], second["event_id"], second["tenant_id"]) == ("2-5-0", "released", "the-event", "demo")


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        ("dead_letters", {b"record": b"letter"}),
        ("dead_letters", {**a_letter().fields, b"attempts": b"99999999999"}),
        ("dead_letters", {**a_letter().fields, b"dead_at": b"9" * 18}),
        ("outcomes", {b"record": b"outcomes", b"batch": b"no JSON"}),
        ("outcomes", a_settled_batch((Ran("event", "m:f", 2**40, 1, 1.0), "ack")).fields),
        ("outcomes", a_settled_batch((Ran(5, "m:f", 1, 1, 1.0), "ack")).fields),  # type: ignore[arg-type]
        ("outcomes", a_settled_batch((Ran("event", "m:f", 1, 10**18, 1.0), "ack")).fields),
        ("quarantine", {b"record": b"request", b"headers": b'{"a": 1}', b"id": b"x", b"received_at": b"1", b"body": b""}),
        ("quarantine", {b"\xff": b"\xff"}),
    ],
)
def test_an_entry_that_is_no_record_is_one_row_that_keeps_its_bytes_among_others(table: str, fields: dict[bytes, bytes]) -> None:
    good = {"dead_letters": a_letter(), "outcomes": a_settled_batch((Ran("e", "m:f", 1, 1, 1.0), "ack")), "quarantine": a_kept_request()}
    bad = Entry("1-1", {**fields, b"sequence": b"8"})

    found = rows(table, good[table], bad, good[table])

    assert [row["decode_error"] is None for row in found] == [True, False, True]
    assert (found[1]["entry_id"], found[1]["sequence"]) == ("1-1", 8)
    assert base64.b64decode(orjson.loads(found[1]["raw_entry"])["sequence"]) == b"8"
    assert DECODERS[table].rows_in(bad) == 1


def a_kept_request() -> Entry:
    return Entry("5-0", {b"record": b"request", b"size": b"9", **flat(encode_request(a_refused_request())), **NUMBERED})
