"""Events as `append.lua` takes them: by the form of their source as by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from infra.settings import LogSettings
from infra.streams.entries import auth_json
from infra.streams.keys import Keys
from infra.streams.prepared import Form, prepare
from infra.streams.scripts import script
from infra.streams.seen import SeenWindow
from infra.streams.stream import EventStream
from schemas.event import AuthContext, Priority
from tests.events import an_event

KEYS, WINDOW = Keys("t:", 4), SeenWindow.parse("80h")
TEXTS = st.text(max_size=20)


@given(
    priority=st.sampled_from([Priority.URGENT, Priority.DEFAULT, Priority.LOW]),
    texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
    payload=st.binary(max_size=100),
    headers=st.dictionaries(TEXTS, TEXTS, max_size=3),
    after_ms=st.integers(0, 10**12),
)
def test_a_form_prepares_an_event_as_it_would_be_prepared_by_itself(
    priority: Priority, texts: tuple[str, str, str, str, str], payload: bytes, headers: dict[str, str], after_ms: int
) -> None:
    event_type, repository, delivery_id, key, content_type = texts
    at = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(milliseconds=after_ms)
    auth = {
        "scheme": "github", "key_id": "k", "signature_headers": headers, "signed_url": "", "verified_at": at, "remote_address": "::1",
    }  # fmt: skip
    event = an_event(
        event_type=event_type, repository=repository, delivery_id=delivery_id, key=key, priority=priority, payload=payload, timestamp=at,
        content_type=content_type, headers=headers, auth_context=AuthContext.model_validate(auth), traceparent="00-a-b-00",
    )  # fmt: skip
    form = Form(KEYS, tenant_id=event.tenant_id, source=event.source, priority=priority, window=WINDOW)

    filled = form.fill(
        event.id, event_type=event_type, repository=repository, delivery_id=delivery_id, key=key, payload=payload, headers=headers,
        received_ms=round(at.timestamp() * 1000), content_type=content_type, auth=auth_json(auth), traceparent="00-a-b-00",
    )  # fmt: skip

    assert filled == prepare(event, keys=KEYS, window=WINDOW)


def test_a_reply_is_known_to_be_about_another_event() -> None:
    one, other = (prepare(an_event(), keys=KEYS, window=WINDOW) for _ in range(2))
    id_of_one = bytes.fromhex(one.event_id.replace("-", ""))

    assert (one.is_meant(id_of_one), other.is_meant(id_of_one)) == (True, False)


async def test_a_form_has_the_window_of_its_source(home: Path) -> None:
    own = SeenWindow.of_source("8h", log="80h")
    stream = EventStream.open(LogSettings(), home=home, windows={("demo", "short"): own})
    rest = {"event_type": "", "repository": "", "delivery_id": "", "key": "", "content_type": "", "traceparent": ""}

    filled = [
        stream.form("demo", source, priority=Priority.LOW).fill(an_event().id, **rest, payload=b"", received_ms=0, headers={}, auth=b"{}")
        for source in ("short", "long")
    ]

    assert [event.window for event in filled] == [own, WINDOW]


def test_a_script_skips_as_many_values_as_events_have() -> None:
    assert "local events_at, values_in = 11, 16" in script("append").text
