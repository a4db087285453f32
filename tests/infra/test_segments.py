"""A segment gives back every whole record, says where it is damaged, and takes nothing for a record that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.segments import HEAD_BYTES, Damage, Record, Segment

PAYLOADS = [b"first", b"", b"third" * 20]


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    made = Segment.new(tmp_path, number=7)
    made.path.write_bytes(b"".join(made.frame(payload, events=2, at_ms=1000) for payload in PAYLOADS))
    return made


def whole(segment: Segment) -> list[bytes]:
    return [found.payload for found in segment.scan() if isinstance(found, Record)]


def damages(segment: Segment) -> list[Damage]:
    return [found for found in segment.scan() if isinstance(found, Damage)]


def test_what_was_written_is_read_and_the_name_says_which_segment_it_is(segment: Segment) -> None:
    found = list(segment.scan())

    assert whole(segment) == PAYLOADS
    assert [(one.events, one.written_ms) for one in found if isinstance(one, Record)] == [(2, 1000)] * 3
    assert Segment.of(segment.path) == segment
    assert Segment.of(segment.path.with_name("lock")) is None


def test_reading_begins_and_ends_where_it_is_told(segment: Segment) -> None:
    first, second, _ = segment.scan()

    assert list(segment.scan(start=first.end, end=second.end)) == [second]
    assert list(segment.scan(start=second.end, end=second.end)) == []


def test_a_segment_that_was_cut_anywhere_gives_its_whole_records_and_a_torn_tail(segment: Segment) -> None:
    ends = [found.end for found in segment.scan()]
    data = segment.path.read_bytes()

    for size in range(len(data)):
        segment.path.write_bytes(data[:size])
        left = sum(end <= size for end in ends)
        assert whole(segment) == PAYLOADS[:left]
        torn_from = ends[left - 1] if left else 0
        assert damages(segment) == ([Damage(torn_from, size, is_torn=True)] if torn_from < size else [])


def test_a_length_without_contents_is_a_torn_tail(segment: Segment) -> None:
    size = segment.path.stat().st_size
    with segment.path.open("ab") as file:
        file.write(bytes(100))

    assert (whole(segment), damages(segment)) == (PAYLOADS, [Damage(size, size + 100, is_torn=True)])


def test_a_byte_that_is_flipped_anywhere_costs_its_own_record_only(segment: Segment) -> None:
    records = list(segment.scan())
    data = segment.path.read_bytes()

    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 0x40
        segment.path.write_bytes(flipped)
        kept = [payload for payload, record in zip(PAYLOADS, records, strict=True) if not record.offset <= place < record.end]
        (hit,) = [record for record in records if record.offset <= place < record.end]
        assert whole(segment) == kept
        # Also at the end: a record that was whole once may have been answered for.
        assert [(found.offset, found.end, found.is_torn) for found in damages(segment)] == [(hit.offset, hit.end, False)]


def test_a_record_that_a_sender_put_into_a_body_is_not_found_behind_a_damaged_place(tmp_path: Path) -> None:
    other, segment = Segment.new(tmp_path, number=1), Segment.new(tmp_path, number=2)
    forged = other.frame(b"forged", events=1, at_ms=0)
    data = bytearray(segment.frame(forged, events=1, at_ms=0) + segment.frame(b"genuine", events=1, at_ms=0))
    data[HEAD_BYTES - 1] ^= 1
    segment.path.write_bytes(data)

    assert whole(segment) == [b"genuine"]
