"""Reading a few members of a body: what it reads is what the whole body says, and everything else it leaves."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.json_body import parse
from ingest.members import Members
from ingest.request import member_of
from ingest.samples import sample
from ingest.schemes import SCHEMES

PATHS = ("action", "repository.full_name", "a.b.0", "")
NAMES = st.sampled_from(["action", "repository", "full_name", "a", "b", "0", "x", "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=4),
    max_leaves=12,
)
MUTANTS = 3000


def read(body: bytes) -> list[str] | None:
    try:
        return Members(*PATHS).read(body)
    except ValueError:
        return None


def said_by(content: object) -> list[object]:
    return [member_of(content, path) if path else None for path in PATHS]


def assert_alike(body: bytes) -> bool:
    """Whether it was read; then it has to be what the whole body says."""
    found = read(body)
    if found is not None:
        assert found == [value or "" for value in said_by(parse(body))]
    return found is not None


@given(VALUES)
def test_what_is_read_is_what_the_whole_body_says(value: object) -> None:
    assert_alike(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "body",
    [
        b'{"action":"\xff"}', b'{"action":"\xc3"}', b'{"action":"\\n\xed\xa0\x80"}', b'{"x":\xff}', b'{\xff"x":1}', b'{"x":NaN}',
        b'{"x":01}', b'{"x":1.}', b'{"x":tru}', b'{"x":"\\x"}', b'{"x":"\x01"}', b'{"x":1,}', b'{"x":1}{}', b'{"x":"\\ud800"}',
        b"\xef\xbb\xbf{}", b"", b"[]", b'"text"', b"null",
        b'{"action":1}', b'{"repository":[]}', b'{"repository":{"full_name":{}}}', b'{"x":' + b"[" * 100_000,
    ],
    ids=lambda body: body[:24],
)  # fmt: skip
def test_what_is_no_json_or_not_as_usual_is_left(body: bytes) -> None:
    assert read(body) is None


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"{}", ["", "", "", ""]),
        (b'{"x":"\xff","\xff":"\xed\xa0\x80","y":"\xc3","action":"opened"}', ["opened", "", "", ""]),
        (b'{"action":null,"repository":null}', ["", "", "", ""]),
        (b'{"action":"opened","action":"closed"}', ["closed", "", "", ""]),
        (b'{"repository":{"full_name":"o/r"},"repository":{}}', ["", "", "", ""]),
        (b'{"repository":{"full_name":"o\\/\\u00e9"},"x":1e999,"a":{"b":{"0":"zero"}}}', ["", "o/é", "zero", ""]),
    ],
)
def test_these_are_read(body: bytes, found: list[str]) -> None:
    assert read(body) == found
    assert assert_alike(body)


def test_no_broken_body_is_read_otherwise_than_whole() -> None:
    chance, whole = random.Random(20261118), sample(SCHEMES["github"], event_type="pull_request.opened", number=1)
    taken = 0
    for _ in range(MUTANTS):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            body[chance.randrange(len(body))] = chance.choice(b'{}[]:,"\\0123e.-+ tfnu\x00\x1f\x7f\x80\xbf\xc3\xe2\xff')
        taken += assert_alike(bytes(body))

    assert 0 < taken < MUTANTS


def test_a_path_through_the_text_of_another_is_refused() -> None:
    with pytest.raises(ValueError, match="leads through"):
        Members("a", "a.b")
