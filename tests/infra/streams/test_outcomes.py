from __future__ import annotations

import pytest

from infra.streams.outcomes import pack, unpack
from schemas.errors import MalformedEntry
from schemas.outcome import Outcome, Ran

FIRST, SECOND = Ran("e1", "m:index", 1, 1_700_000_000_000, 1.5), Ran("e2", "m:index", 3, 1_700_000_000_100, 20.0)


def entry(batch: bytes, *, lost: bytes = b"") -> dict[bytes, bytes]:
    return {b"group": b"g", b"consumer": b"c", b"batch": batch, b"lost": lost}


def test_what_is_packed_is_unpacked() -> None:
    packed = pack([(FIRST, "ack"), (SECOND, "dead_letter")])

    assert unpack(entry(packed)) == [Outcome("g", "c", "ack", FIRST), Outcome("g", "c", "dead_letter", SECOND)]


def test_what_was_lost_is_not_recorded() -> None:
    packed = pack([(FIRST, "ack"), (SECOND, "retry")])

    assert unpack(entry(packed, lost=b"1")) == [Outcome("g", "c", "retry", SECOND)]


@pytest.mark.parametrize("batch", [b"", b"[]", b"{}", b'{"event_ids": ["a"]}'])
def test_an_entry_that_is_no_record_says_so(batch: bytes) -> None:
    with pytest.raises(MalformedEntry, match="no record of outcomes"):
        unpack(entry(batch))
