from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.json_body import parse
from ingest.slices import slices_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
SPACES = st.text(" \t\r\n", max_size=3)


def elements(body: bytes) -> list[object] | None:
    """The values of the slices; None when there are none."""
    try:
        return [parse(one.payload) for one in slices_of(body)]
    except ValueError:
        return None


def joined(body: bytes) -> bytes:
    return b"".join(one.before.encode() + one.payload + one.after.encode() for one in slices_of(body))


@given(values=st.lists(VALUES, min_size=1, max_size=5), spaces=st.lists(SPACES, min_size=12, max_size=12), is_ascii=st.booleans())
def test_slices_are_the_elements_and_make_the_body_again(values: list[object], spaces: list[str], is_ascii: bool) -> None:
    written = [json.dumps(value, ensure_ascii=is_ascii) for value in values]
    try:
        written[0].encode()
        orjson.loads(written[0])
    except ValueError:
        return  # half a character, which nothing but Python writes
    gaps = iter(spaces)
    inside = ",".join(f"{next(gaps)}{text}{next(gaps)}" for text in written)
    body = f"{next(gaps)}[{inside}]{next(gaps)}".encode(errors="replace")

    assert [one.payload for one in slices_of(body)] == [text.encode(errors="replace") for text in written]
    assert elements(body) == orjson.loads(body)
    assert joined(body) == body


JSONISH = st.text('[]{},:"\\ \n01-.eEtruefalsn\u00e9\x1f', max_size=24).map(str.encode)


@given(JSONISH | st.binary(max_size=16) | JSONISH.map(lambda inner: b"[" + inner + b"]"))
@example(b"[1,]")
@example(b"[,1]")
@example(b"[1 2]")
@example(b"[1]2")
@example(b"[1")
@example(b"[")
@example(b"]")
@example(b"[NaN]")
@example(b"[Infinity,-Infinity]")
@example(b"[01]")
@example(b'["\x01"]')
@example(b'["\xff"]')
@example(b"\xef\xbb\xbf[1]")
@example(b'[{"a":1}, [2, "]"] ]\r\n')
@example(b'["\\ud800", 1e999]')
def test_whatever_is_no_array_is_not_cut_and_whatever_is_one_is(body: bytes) -> None:
    try:
        expected = parse(body)
    except ValueError:
        expected = None

    assert elements(body) == (expected if isinstance(expected, list) and expected else None)
    if elements(body) is not None:
        assert joined(body) == body


@pytest.mark.parametrize("body", [b"", b" ", b"[]", b"[ ]\n", b"{}", b'{"a": [1]}', b'"[1]"', b"null", b"1"])
def test_what_has_no_elements_is_not_cut(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        slices_of(body)


def test_numbers_strings_and_names_stay_as_they_were_written() -> None:
    body = b'[ 1.10, {"b":1,"a":2,"b":3} ,"\\u00e9\\/", 1e2,\n' + b"9" * 400 + b"]\r\n"

    assert [one.payload for one in slices_of(body)] == [b"1.10", b'{"b":1,"a":2,"b":3}', b'"\\u00e9\\/"', b"1e2", b"9" * 400]
    assert joined(body) == body


@pytest.mark.parametrize("depth", [200, 2_000, 1_000_000])
def test_deep_nesting_is_cut_or_refused_and_never_more(depth: int) -> None:
    body = b"[1," + b"[" * depth + b"]" * depth + b"]"

    assert elements(body) is None or joined(body) == body
