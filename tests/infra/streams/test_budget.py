from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.streams.budget import TURNS, WEIGHTS, allot

CLASSES = st.sets(st.sampled_from(sorted(WEIGHTS)))


@given(room=st.integers(1, 10_000), hungry=CLASSES, streams=st.integers(1, 64), turn=st.integers(0, 1000))
def test_a_budget_is_never_exceeded_and_somebody_is_always_asked(room: int, hungry: set[str], streams: int, turn: int) -> None:
    counts = allot(room, hungry=hungry, streams_per_class=streams, turn=turn)

    # With less room than streams the reader asks only as many streams as there is room for.
    assert sum(count * min(streams, room) for count in counts.values()) <= room
    assert all(count >= 1 for count in counts.values())
    assert counts


def test_a_hungry_class_gets_what_the_others_leave() -> None:
    counts = allot(256, hungry={"default"}, streams_per_class=4, turn=0)

    assert counts == {"urgent": 1, "retry": 1, "default": 59, "low": 1, "overflow": 1, "replay": 1}


def test_hungry_classes_share_by_weight() -> None:
    counts = allot(1000, hungry={"urgent", "low"}, streams_per_class=4, turn=0)

    assert counts["urgent"] > 7 * counts["low"] > 7


def test_with_little_room_every_hungry_class_has_its_turns() -> None:
    asked = Counter(next(iter(allot(4, hungry=set(WEIGHTS), streams_per_class=4, turn=turn))) for turn in range(2 * len(TURNS)))

    assert asked == Counter({name: 2 * weight for name, weight in WEIGHTS.items()})


@pytest.mark.parametrize("room", [1, 4, 19, 20, 39, 256])
def test_a_class_is_asked_however_hungry_another_one_is(room: int) -> None:
    asks = [allot(room, hungry={"low"}, streams_per_class=4, turn=turn) for turn in range(2 * len(TURNS))]

    assert {name for counts in asks for name in counts} == set(WEIGHTS)
    assert sum("low" in counts for counts in asks) >= len(TURNS)
