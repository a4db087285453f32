"""Bodies that are several events, and bodies that have to fit a schema: what is stored of them, and what is answered."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.settings import LogSettings, load_settings
from infra.streams.stream import MOST_PARTS
from ingest.headers import Headers
from ingest.request import Request
from ingest.sources import Sources
from ingest.splitting import Piece, pieces_of
from schemas.errors import ConfigError, SchemaMismatch
from schemas.event import StreamEvent
from tests.ingest.receivers import GENERIC_SECRET, Answer, RunningReceiver, post, write_home
from tests.ingest.vectors import FOLDER, vectors_of

GENERIC: dict[str, Any] = {
    "scheme": "generic",
    "secrets": ["file:secrets/generic"],
    "header": "X-Signature",
    "delivery_id_header": "X-Delivery",
}
SCHEMA = {"type": "object", "required": ["n"]}
SENDGRID_KEY = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="
)
SOURCES: dict[str, Any] = {
    "batches": {**GENERIC, "split": True, "encodings": ["gzip"], "schemas": {"*": "file:item.json"}},
    "strict": {**GENERIC, "split": True, "schemas": {"*": "file:item.json"}, "on_mismatch": "refuse"},
    "single": {**GENERIC, "schemas": {"single.received": "file:item.json"}, "on_mismatch": "refuse"},
    "mail": {"scheme": "sendgrid", "secrets": ["file:secrets/sendgrid"]},
    "mail-whole": {"scheme": "sendgrid", "secrets": ["file:secrets/sendgrid"], "split": False},
}  # fmt: skip
Stored = Callable[[], dict[str, StreamEvent]]


def made_home(home: Path, *, log: LogSettings) -> Path:
    write_home(home, log=log, tenants={"demo": {"sources": SOURCES}})
    (home / "item.json").write_bytes(orjson.dumps(SCHEMA))
    key = home / "secrets" / "sendgrid"
    key.touch(mode=0o600)
    key.write_text(SENDGRID_KEY)
    return home


@pytest.fixture(scope="module")
def receiver_home(tmp_path_factory: pytest.TempPathFactory, receiver_log: LogSettings) -> Path:
    return made_home(tmp_path_factory.mktemp("splitting"), log=receiver_log)


def send(receiver: RunningReceiver, body: bytes, *, source: str = "batches", delivery: str = "", **headers: str) -> Answer:
    signature = hmac.new(GENERIC_SECRET, body, hashlib.sha256).hexdigest()
    named = {"x-signature": signature, "x-delivery": delivery or str(uuid.uuid4()), "content-type": "application/json"}
    return post(receiver.port, body=body, headers={**named, **headers}, path=f"/hooks/demo/{source}")


def of_body(events: dict[str, StreamEvent], body: bytes) -> list[StreamEvent]:
    digest = hashlib.sha256(body).hexdigest()
    parts = [(event.part.number, event) for event in events.values() if event.part is not None and event.part.body_sha256 == digest]
    return [event for _, event in sorted(parts, key=lambda numbered: numbered[0])]


def signed_body(events: list[StreamEvent]) -> bytes:
    """The body again, as anybody can make it of its parts years later."""
    whole = b"".join(event.part.before.encode() + event.payload + event.part.after.encode() for event in events if event.part)
    assert [event.part.number for event in events if event.part] == list(range(1, len(events) + 1))
    return whole


def test_each_element_becomes_an_event_with_its_own_bytes(receiver: RunningReceiver, stored: Stored) -> None:
    body = b' [ {"n": 1.10} ,{"n":2,"n":"\\u00e9"},\r\n{"n":[1,"]"]}]\r\n'

    answer = send(receiver, body, delivery="d-1")

    events = of_body(stored(), body)
    assert (answer.status, answer.json) == (202, {"event_id": events[0].id, "duplicate": False, "parts": 3})
    assert [event.payload for event in events] == [b'{"n": 1.10}', b'{"n":2,"n":"\\u00e9"}', b'{"n":[1,"]"]}']
    assert [event.delivery_id for event in events] == ["d-1#1", "d-1#2", "d-1#3"]
    assert {(event.event_type, event.key, event.flags) for event in events} == {("batches.received", "", ())}
    assert all(event.body_sha256 == hashlib.sha256(event.payload).hexdigest() for event in events)


def test_the_signature_can_be_verified_again_from_the_parts(receiver: RunningReceiver, stored: Stored) -> None:
    body = b'[{"n":1},\n {"n":2}]\r\n'
    send(receiver, body)

    events = of_body(stored(), body)

    whole = signed_body(events)
    signature = events[0].auth_context.signature_headers["x-signature"]
    assert (whole, hashlib.sha256(whole).hexdigest()) == (body, events[0].part and events[0].part.body_sha256)
    assert hmac.new(GENERIC_SECRET, whole, hashlib.sha256).hexdigest() == signature


def test_a_repeated_body_is_a_duplicate_of_all_its_parts(receiver: RunningReceiver, stored: Stored) -> None:
    first = send(receiver, b'[{"n":"again"},{"n":"and again"}]', delivery="d-2")
    count = len(stored())

    again = send(receiver, b'[{"n":"again"},{"n":"and again"}]', delivery="d-2")

    assert again.json == {**first.json, "duplicate": True}
    assert len(stored()) == count


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"n": 1}', b"[1,]", b"not json", b"", b"[" + b",".join([b'{"n":1}'] * (MOST_PARTS + 1)) + b"]"],
    ids=["empty", "object", "broken", "text", "nothing", "too many"],
)
def test_what_cannot_be_split_is_kept_whole_and_flagged(receiver: RunningReceiver, stored: Stored, body: bytes) -> None:
    answer = send(receiver, body)

    event = stored()[answer.json["event_id"]]
    assert (answer.status, "parts" in answer.json, event.payload, event.part) == (202, False, body, None)
    assert event.flags[0] == "not_split"


def test_a_compressed_body_is_kept_as_it_was_signed(receiver: RunningReceiver, stored: Stored) -> None:
    body = gzip.compress(b'[{"n":1},{"n":2}]')

    answer = send(receiver, body, **{"content-encoding": "gzip"})

    event = stored()[answer.json["event_id"]]
    assert (event.payload, event.part, event.flags[0]) == (body, None, "not_split")


def test_as_many_parts_as_may_be_are_accepted(receiver: RunningReceiver, stored: Stored) -> None:
    body = b"[" + b",".join(b'{"n":%d}' % number for number in range(MOST_PARTS)) + b"]"

    assert send(receiver, body).json["parts"] == MOST_PARTS
    assert signed_body(of_body(stored(), body)) == body


def test_a_part_that_does_not_fit_its_schema_is_flagged_and_its_neighbours_are_not(receiver: RunningReceiver, stored: Stored) -> None:
    body = b'[{"n":1},{"m":1},7]'

    assert send(receiver, body).status == 202

    assert [event.flags for event in of_body(stored(), body)] == [(), ("schema_mismatch",), ("schema_mismatch",)]


def test_a_part_that_does_not_fit_refuses_the_whole_body_where_mismatches_are_refused(receiver: RunningReceiver, stored: Stored) -> None:
    body = b'[{"n":1},{"m":1}]'
    count = len(stored())

    answer = send(receiver, body, source="strict")

    assert (answer.status, answer.code) == (422, "schema_mismatch")
    assert '"n" is a required property' in answer.json["error"]["message"]
    assert len(stored()) == count


@pytest.mark.parametrize("body", [b'{"m": 1}', b"[]", b"text", b"", b'{"n": 1'])
def test_a_body_that_does_not_fit_is_refused(receiver: RunningReceiver, body: bytes) -> None:
    assert send(receiver, b'{"n": 1}', source="single").status == 202
    assert (send(receiver, body, source="single").status, send(receiver, body, source="single").code) == (422, "schema_mismatch")


def pieces(home: Path, source: str, body: bytes) -> list[Piece]:
    found = Sources.from_settings(load_settings(home)).find("demo", source=source)
    request = Request(Headers([(b"content-type", b"application/json"), (b"x-delivery", b"d")]), body)
    return pieces_of(found, request=request, plain=request)


MAIL = orjson.dumps([{"event": "bounce", "sg_event_id": "id-1", "email": "a@example.com"}, {"event": "open", "email": "b@example.com"}, 5])


def test_items_of_sendgrid_have_their_own_types_ids_and_subjects(receiver_home: Path) -> None:
    found = pieces(receiver_home, "mail", MAIL)

    described = [(piece.described.event_type, piece.described.repository, piece.described.delivery_id) for piece in found]
    digest = hashlib.sha256(MAIL).hexdigest()
    assert described == [
        ("sendgrid.bounce", "a@example.com", "id-1"),
        ("sendgrid.open", "b@example.com", f"{digest}#2"),
        ("sendgrid.received", "", f"{digest}#3"),
    ]


def test_a_batch_is_one_event_where_the_settings_say_so(receiver_home: Path) -> None:
    (piece,) = pieces(receiver_home, "mail-whole", MAIL)

    assert (piece.described.event_type, piece.payload, piece.part, piece.flags) == ("sendgrid.batch", MAIL, None, ())


def test_a_refused_item_is_the_senders_mistake(receiver_home: Path) -> None:
    with pytest.raises(SchemaMismatch, match=r"strict\.received"):
        pieces(receiver_home, "strict", b'[{"n":1},{}]')


def test_a_source_that_splits_has_no_ordering_key(tmp_path: Path) -> None:
    source = {**SOURCES["batches"], "key": "n"}
    write_home(tmp_path, log=LogSettings(), tenants={"demo": {"sources": {"batches": source}}})

    with pytest.raises(ConfigError, match=r"batches\.key=n, but the source splits bodies"):
        Sources.from_settings(load_settings(tmp_path))


def test_the_published_body_of_sendgrid_verifies_again_from_its_parts(receiver_home: Path) -> None:
    (vector,) = vectors_of(FOLDER / "sendgrid.json")

    (piece,) = pieces(receiver_home, "mail", vector.body)

    assert piece.part is not None
    assert (piece.part.before, piece.part.after, piece.described.event_type) == ("[", "]\r\n", "sendgrid.dropped")
    whole = piece.part.before.encode() + piece.payload + piece.part.after.encode()
    assert replace(vector, body=whole).is_believed
