from __future__ import annotations

import uuid
from datetime import UTC, datetime

from infra.clock import Clock, EventIds, uuid_bytes, uuid_text


class Hands:
    """A wall clock that shows what it is told."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def clock(self) -> Clock:
        return Clock(wall_ns=lambda: self.now_ms * 1_000_000 + 999_999)


def test_ids_only_grow_when_the_clock_steps_back() -> None:
    hands = Hands(1_700_000_000_000)
    ids = EventIds(hands.clock())

    minted = []
    for step_ms in (0, 0, 1, -60_000, 0, -1, 59_999, 1, 1):
        hands.now_ms += step_ms
        minted.append(ids.mint())

    assert minted == sorted(set(minted))


def test_ids_only_grow_when_more_are_minted_in_a_millisecond_than_the_counter_holds() -> None:
    ids = EventIds(Hands(1_700_000_000_000).clock())

    minted = [ids.mint() for _ in range(10_000)]

    assert minted == sorted(set(minted))


def test_an_id_is_a_uuid_of_version_7_that_tells_when_it_was_minted() -> None:
    minted = uuid.UUID(EventIds(Hands(1_700_000_000_123).clock()).mint())

    assert (minted.version, minted.variant, minted.int >> 80) == (7, uuid.RFC_4122, 1_700_000_000_123)


def test_now_is_in_whole_milliseconds() -> None:
    assert Hands(1_700_000_000_123).clock().now() == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_the_quick_way_of_writing_ids_is_the_usual_one() -> None:
    for value in (bytes(16), bytes(range(16)), b"\xff" * 16, uuid.uuid4().bytes):
        assert uuid_text(value) == str(uuid.UUID(bytes=value))
        assert uuid_bytes(uuid_text(value)) == value


def test_ids_that_are_minted_together_grow_as_those_that_are_minted_alone() -> None:
    ids = EventIds(Clock(wall_ns=lambda: 1_700_000_000_000_000_000))

    minted = [ids.mint(), *ids.mint_many(5000), ids.mint()]

    assert minted == sorted(set(minted))
    assert ids.mint_many(0) == []
