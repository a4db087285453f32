from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from analytics.event_rows import record_batches
from analytics.raw_rows import LATEST_MS
from analytics.source import PORTION_BYTES, PORTION_ENTRIES, may_be_archived, portions
from infra.streams.entries import Entry, encode
from schemas.event import Part
from tests.events import an_event


def an_entry(number: int = 1, **changes: Any) -> Entry:
    """What the log holds after an append."""
    flat = [value if isinstance(value, bytes) else str(value).encode() for value in encode(an_event(**changes))]
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    added = {b"incarnation": b"a", b"sequence": b"%d" % number, b"recheck": b"0", b"conflict": b"0"}
    return Entry(f"1700000000000-{number}", {**fields, **added})


def broken(**fields: bytes | None) -> Entry:
    """The same with fields changed or, for None, taken away."""
    entry = an_entry(2)
    changed = {**entry.fields, **{name.encode(): value for name, value in fields.items() if value is not None}}
    return Entry(entry.id, {name: value for name, value in changed.items() if fields.get(name.decode(), b"") is not None})


def rows(*entries: Entry) -> list[dict[str, Any]]:
    return [row for batch in record_batches(list(entries), stream="0:default") for row in batch.to_pylist()]


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff\xfe\xfd", b'{"a": "\\ud800"}', b"[" * 10_000, b"9" * 5_000])
def test_a_body_arrives_byte_for_byte(body: bytes) -> None:
    (row,) = rows(an_entry(payload=body))

    assert (row["body"], row["decode_error"]) == (body, None)


def test_a_part_and_its_flags_are_rows_beside_those_that_have_none() -> None:
    part = Part(number=2, of=3, body_sha256="a" * 64, before=",")

    first, second = rows(an_entry(1), an_entry(2, part=part, flags=("schema_mismatch",)))

    assert (first["part"], first["flags"], first["decode_error"]) == (None, None, None)
    assert (Part.model_validate_json(second["part"]), second["flags"]) == (part, '["schema_mismatch"]')


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (broken(version=b"2"), "version b'2' is not 1"),
        (broken(payload=None), "KeyError: b'payload'"),
        (broken(repository=b"\xff"), "UTF8"),
        (broken(timestamp=b"253402300799000"), "no time between 1970 and 2100"),
        (broken(timestamp=b"soon"), "invalid literal"),
        (broken(sequence=b"9" * 30), "OverflowError"),
        (broken(headers=b"[]"), "headers are no object of texts"),
        (broken(headers=b'{"a": 1}'), "headers are no object of texts"),
        (broken(auth_context=b"{}"), "scheme"),
        (broken(part=b"{}"), "number"),
        (broken(flags=b'{"a": 1}'), "flags are no list"),
        (Entry("1700000000000-2", {b"\xff": b"\xfe"}), "KeyError"),
    ],
)
def test_an_entry_that_is_no_event_becomes_a_row_that_says_why_and_spares_its_neighbours(entry: Entry, reason: str) -> None:
    first, second, third = rows(an_entry(1), entry, an_entry(3))

    assert (first["decode_error"], third["decode_error"]) == (None, None)
    assert reason in second["decode_error"]
    assert (second["entry_id"], second["stream"], second["timestamp"]) == ("1700000000000-2", "0:default", 1700000000000)
    kept = {name: base64.b64decode(value) for name, value in orjson.loads(second["raw_entry"]).items()}
    assert kept == {name.decode("utf-8", "backslashreplace"): value for name, value in entry.fields.items()}


@pytest.mark.parametrize("entry_id", ["99999999999999999-0", "18446744073709551000-0"])
def test_an_entry_id_that_is_no_time_has_a_date_all_the_same(entry_id: str) -> None:
    (row,) = rows(Entry(entry_id, {b"foreign": b"x"}))

    assert (row["entry_id"], row["timestamp"]) == (entry_id, LATEST_MS - 1)


def test_whose_event_it_is_can_be_read_in_every_version() -> None:
    (row,) = rows(broken(version=b"7", body_sha256=None))

    assert (row["tenant_id"], row["source"], row["sequence"], row["incarnation"]) == ("demo", "github", 2, "a")
    assert row["id"] is not None


def test_order_is_kept_around_what_cannot_be_decoded() -> None:
    found = rows(*(broken(version=b"2") if number == 5 else an_entry(number) for number in range(1, 9)))

    assert [row["decode_error"] is None for row in found] == [True] * 4 + [False] + [True] * 3


def test_entries_of_a_past_incarnation_and_doubtful_ones_may_be_archived_already() -> None:
    for form in (Entry, as_sent):
        assert not may_be_archived(form("1-0", an_entry().fields), incarnation=b"a")
        assert may_be_archived(form("1-0", an_entry().fields), incarnation=b"b")
        assert may_be_archived(form("1-0", {**an_entry().fields, b"recheck": b"1"}), incarnation=b"a")
        assert may_be_archived(form("1-0", {b"foreign": b"x"}), incarnation=b"a")


def as_sent(entry_id: str, fields: dict[bytes, bytes]) -> Entry:
    """The same entry as the server sends it."""
    return Entry(entry_id, flat=[part for pair in fields.items() for part in pair])


def test_entries_are_read_alike_whether_their_fields_are_where_they_usually_are_or_not() -> None:
    part = Part(number=2, of=3, body_sha256="a" * 64, before=",")
    entries = [an_entry(1), an_entry(2, part=part, flags=("schema_mismatch",)), broken(version=b"2"), broken(headers=b"[]")]
    turned = [Entry(entry.id, dict(reversed(entry.fields.items()))) for entry in entries]

    sent = [as_sent(entry.id, entry.fields) for entry in entries]

    assert rows(*entries) == rows(*sent) == [row for entry in sent for row in rows(entry)]
    assert [row["body"] for row in rows(*turned[:2])] == [row["body"] for row in rows(*entries[:2])]
    assert [entry.size_bytes for entry in sent] == [entry.size_bytes for entry in entries]


def test_small_entries_travel_together_and_large_ones_by_themselves() -> None:
    small, large = Entry("1-0", {b"payload": b"x"}), Entry("2-0", {b"payload": b"x" * (PORTION_BYTES // 2)})

    assert [len(portion) for portion in portions([small] * (PORTION_ENTRIES + 1))] == [PORTION_ENTRIES, 1]
    assert [len(portion) for portion in portions([small, large, large, small])] == [2, 2]
    assert list(portions([])) == []
