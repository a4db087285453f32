from __future__ import annotations

import hiredis
from hypothesis import given
from hypothesis import strategies as st

from infra.streams.framing import Framed, framed, pack
from infra.streams.scripts import Argument
from schemas.event import Priority

ARGUMENTS = st.lists(st.text() | st.binary() | st.integers(), min_size=1, max_size=5)


def as_read(packed: bytes) -> list[bytes]:
    """What a server reads."""
    reader = hiredis.Reader()
    reader.feed(packed)
    found: list[bytes] = reader.gets()
    assert reader.gets() is False
    return found


@given(first=ARGUMENTS, rest=ARGUMENTS)
def test_what_is_framed_already_is_read_as_what_is_not(first: list[Argument], rest: list[Argument]) -> None:
    packed = pack([*first, Framed(len(rest), [framed(value) for value in rest])])

    assert as_read(packed) == as_read(pack([*first, *rest]))


def test_a_priority_is_framed_by_its_value() -> None:
    assert framed(Priority.LOW) == b"$3\r\nlow\r\n"


def test_a_value_may_stand_in_several_pieces() -> None:
    assert as_read(pack(["ECHO", Framed(1, [b"$5\r\n", b"hel", b"lo", b"\r\n"])])) == [b"ECHO", b"hello"]
