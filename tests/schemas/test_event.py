from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

import schemas
from schemas.__main__ import json_schema
from schemas.event import VERSION, StreamEvent, is_name
from tests.events import an_event


def test_the_published_schema_is_the_models() -> None:
    published = Path(schemas.__file__).parent / f"stream_event.v{VERSION}.json"

    assert published.read_text() == json_schema(), "run `python -m schemas > schemas/stream_event.v1.json`, or make a new version"


def test_an_event_survives_json_with_any_bytes_in_it() -> None:
    event = an_event(payload=bytes(range(256)))

    assert StreamEvent.model_validate_json(event.model_dump_json()) == event


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        an_event().payload = b"other"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["a", "0", "demo", "a-b_c", "x" * 63])
def test_these_are_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "-a", "_a", "A", "a.b", "a:b", "a/b", "{a}", "a\n", "ä", "x" * 64, "..", "a b", "a%2f"])
def test_these_are_no_names(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(ValidationError):
        an_event(tenant_id=name)
