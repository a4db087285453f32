"""A real receiver on a real log: what senders are answered, and what is on the log afterwards."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

from infra.settings import LogSettings
from ingest.app import STATUSES, refused, status_of
from schemas import errors
from schemas.errors import BadSignature, ConfigError, HooklakeError, Overloaded, Refused, StaleTimestamp, StreamUnavailable
from schemas.event import Priority, StreamEvent
from tests.ingest.receivers import (
    GENERIC_SECRET,
    OTHER_SECRET,
    PATH,
    PUSH,
    Answer,
    RunningReceiver,
    post,
    post_push,
    signed_headers,
    start_receiver,
    wait_until,
    write_home,
)

Stored = Callable[[], dict[str, StreamEvent]]


def test_an_accepted_event_is_on_the_log_with_identical_bytes(receiver: RunningReceiver, stored: Stored) -> None:
    body = '{"repository": {"full_name": "octo/hello"}, "b" : 1.0,  "a":"ü\\u00e9"}\r\n'.encode()
    headers = signed_headers(body, x_github_event="pull_request", user_agent="GitHub-Hookshot/1", authorization="Bearer x", cookie="c=1")

    answer = post(receiver.port, body=body, headers=headers)

    assert answer.status == 202
    assert answer.json == {"event_id": answer.json["event_id"], "duplicate": False}
    event = stored()[answer.json["event_id"]]
    assert event.payload == body
    assert event.body_sha256 == hashlib.sha256(body).hexdigest()
    assert (event.tenant_id, event.source, event.event_type) == ("demo", "github", "github.pull_request")
    assert (event.repository, event.key, event.delivery_id) == ("octo/hello", "octo/hello", headers["x-github-delivery"])
    assert set(event.headers) == {"content-type", "user-agent", "x-github-event", "x-github-delivery"}


def test_the_event_remembers_how_it_was_verified(receiver: RunningReceiver, stored: Stored) -> None:
    headers = signed_headers(PUSH, secret=OTHER_SECRET)

    answer = post(receiver.port, body=PUSH, headers=headers)

    event = stored()[answer.json["event_id"]]
    assert event.auth_context.scheme == "github"
    assert event.auth_context.signature_headers == {"x-hub-signature-256": headers["x-hub-signature-256"]}
    assert event.auth_context.remote_address == "127.0.0.1"
    assert re.fullmatch(r"[0-9a-f]{8}", event.auth_context.key_id)
    assert OTHER_SECRET.decode() not in event.model_dump_json()


def test_a_trace_begins_here_whatever_the_sender_says(receiver: RunningReceiver, stored: Stored) -> None:
    forged = "00-11111111111111111111111111111111-2222222222222222-01"

    answer = post_push(receiver.port, traceparent=forged)

    event = stored()[answer.json["event_id"]]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", event.traceparent)
    assert "1111111111111111" not in event.traceparent


def test_a_repeated_delivery_gets_the_first_id_and_is_stored_once(receiver: RunningReceiver, stored: Stored) -> None:
    headers = signed_headers(PUSH)

    answers = [post(receiver.port, body=PUSH, headers=headers) for _ in range(3)]

    assert [answer.status for answer in answers] == [202, 202, 202]
    assert [answer.json["duplicate"] for answer in answers] == [False, True, True]
    assert len({answer.json["event_id"] for answer in answers}) == 1
    assert [event.delivery_id for event in stored().values()].count(headers["x-github-delivery"]) == 1


def test_a_form_is_stored_as_the_form_it_was(receiver: RunningReceiver, stored: Stored) -> None:
    body = urlencode({"payload": PUSH.decode()}).encode()

    answer = post_push(receiver.port, body=body, content_type="application/x-www-form-urlencoded")

    event = stored()[answer.json["event_id"]]
    assert (event.payload, event.repository, event.content_type) == (body, "octo/hello", "application/x-www-form-urlencoded")


def test_a_generic_source_stores_any_bytes(receiver: RunningReceiver, stored: Stored) -> None:
    body = bytes(range(256))
    signature = base64.b64encode(hmac.digest(GENERIC_SECRET, body, "sha256")).decode()
    headers = {"x-signature": signature, "x-delivery": "any-bytes", "x-type": "invoice.paid"}

    answer = post(receiver.port, body=body, headers=headers, path="/hooks/demo/billing")

    assert answer.status == 202
    event = stored()[answer.json["event_id"]]
    assert (event.payload, event.event_type, event.priority) == (body, "billing.invoice.paid", Priority.URGENT)


@pytest.mark.parametrize("name", ["note", "action"])
def test_a_body_that_is_no_utf_8_is_kept_as_it_came(receiver: RunningReceiver, stored: Stored, name: str) -> None:
    body = json.dumps({name: "Zoë", "repository": {"full_name": "octo/hello"}}, ensure_ascii=False).encode("latin-1")

    answer = post_push(receiver.port, body=body)

    assert answer.status == 202
    event = stored()[answer.json["event_id"]]
    assert (event.payload, event.event_type, event.repository) == (body, "github.push", "octo/hello")


def test_a_large_body_below_its_cap_is_accepted_whole(receiver: RunningReceiver, stored: Stored) -> None:
    body = json.dumps({"filler": "x" * 199_000}).encode()

    answer = post_push(receiver.port, body=body)

    assert stored()[answer.json["event_id"]].payload == body


def test_a_chunked_body_is_accepted_whole(receiver: RunningReceiver, stored: Stored) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
    connection.request("POST", PATH, body=iter([PUSH[:10], PUSH[10:]]), headers=signed_headers(PUSH), encode_chunked=True)
    response = connection.getresponse()
    event_id = json.loads(response.read())["event_id"]
    connection.close()

    assert stored()[event_id].payload == PUSH


def test_many_requests_share_one_connection(receiver: RunningReceiver) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
    statuses = []
    for _ in range(20):
        connection.request("POST", PATH, body=PUSH, headers=signed_headers(PUSH))
        response = connection.getresponse()
        response.read()
        statuses.append((response.status, response.will_close))
    connection.close()

    assert statuses == [(202, False)] * 20


def unsigned() -> dict[str, str]:
    return {name: value for name, value in signed_headers(PUSH).items() if name != "x-hub-signature-256"}


@pytest.mark.parametrize(
    ("status", "code", "body", "headers", "path", "method"),
    [
        pytest.param(400, "malformed_request", b"garbage", signed_headers(b"garbage"), PATH, "POST", id="garbage, well signed"),
        pytest.param(400, "malformed_request", b"", signed_headers(b""), PATH, "POST", id="empty body"),
        pytest.param(400, "malformed_request", PUSH, signed_headers(PUSH, x_github_event=""), PATH, "POST", id="no event type"),
        pytest.param(400, "malformed_request", PUSH, signed_headers(PUSH, x_github_delivery=""), PATH, "POST", id="no delivery id"),
        pytest.param(401, "bad_signature", PUSH, unsigned(), PATH, "POST", id="no signature"),
        pytest.param(401, "bad_signature", PUSH, signed_headers(PUSH, secret=b"wrong" * 5), PATH, "POST", id="wrong secret"),
        pytest.param(401, "bad_signature", PUSH + b" ", signed_headers(PUSH), PATH, "POST", id="changed body"),
        pytest.param(401, "bad_signature", PUSH, signed_headers(PUSH, x_hub_signature_256="sha256=\xe9\xff"), PATH, "POST", id="not ASCII"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/hooks/demo/nobody", "POST", id="unknown source"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/hooks/nobody/github", "POST", id="unknown tenant"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/hooks/demo/github/", "POST", id="trailing slash"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/hooks//demo/github", "POST", id="double slash"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/hooks/demo%2Fgithub", "POST", id="escaped slash"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/hooks/demo/%2e%2e/demo/github", "POST", id="dots"),
        pytest.param(404, "unknown_source", PUSH, signed_headers(PUSH), "/", "POST", id="no path"),
        pytest.param(405, "method_not_allowed", b"", {}, PATH, "GET", id="GET"),
        pytest.param(405, "method_not_allowed", PUSH, signed_headers(PUSH), PATH, "PUT", id="PUT"),
        pytest.param(405, "method_not_allowed", b"", {}, "/healthz", "POST", id="POST to healthz"),
        pytest.param(413, "body_too_large", b"x" * 200_001, signed_headers(b"x"), PATH, "POST", id="too large"),
        pytest.param(415, "unsupported_encoding", PUSH, signed_headers(PUSH, content_encoding="gzip"), PATH, "POST", id="compressed"),
        pytest.param(431, "headers_too_large", PUSH, signed_headers(PUSH, x_long="x" * 17_000), PATH, "POST", id="long headers"),
        pytest.param(
            431, "headers_too_large", PUSH, signed_headers(PUSH, x_long="x" * 17_000), "/hooks/demo/nobody", "POST", id="long to nobody"
        ),
        pytest.param(
            431, "headers_too_large", PUSH, signed_headers(PUSH) | {f"x-{n}": "1" for n in range(70)}, PATH, "POST", id="many headers"
        ),
    ],
)
def test_a_senders_mistake_has_its_status_and_stores_nothing(
    receiver: RunningReceiver, stored: Stored, status: int, code: str, body: bytes, headers: dict[str, str], path: str, method: str
) -> None:
    before = set(stored())

    answer = post(receiver.port, body=body, headers=headers, path=path, method=method)

    assert (answer.status, answer.code) == (status, code)
    assert set(answer.json) == {"error"}
    assert set(answer.json["error"]) == {"code", "message"}
    assert set(stored()) == before


def test_a_wrong_method_is_told_the_right_one(receiver: RunningReceiver) -> None:
    assert post(receiver.port, body=b"", headers={}, method="GET").headers["allow"] == "POST"


def test_every_signature_fault_gets_the_same_answer(receiver: RunningReceiver) -> None:
    faults = [
        unsigned(),
        signed_headers(PUSH, secret=b"wrong" * 5),
        signed_headers(PUSH, x_hub_signature_256="sha256=00"),
        signed_headers(PUSH, x_hub_signature_256="sha1=" + "0" * 40),
    ]

    answers = [post(receiver.port, body=PUSH, headers=headers) for headers in faults]

    assert {(answer.status, answer.body) for answer in answers} == {(401, answers[0].body)}


def test_unknown_tenants_and_sources_get_the_same_answer(receiver: RunningReceiver) -> None:
    answers = [post(receiver.port, body=PUSH, headers=signed_headers(PUSH), path=path) for path in ("/hooks/demo/x", "/hooks/x/github")]

    assert answers[0].body == answers[1].body


def test_a_signature_of_one_source_is_worth_nothing_at_another(receiver: RunningReceiver) -> None:
    signature = base64.b64encode(hmac.digest(GENERIC_SECRET, PUSH, "sha256")).decode()

    answer = post(receiver.port, body=PUSH, headers=signed_headers(PUSH) | {"x-signature": signature, "x-hub-signature-256": signature})

    assert answer.status == 401


def test_a_refused_request_is_logged_with_its_reason_and_without_its_content(receiver: RunningReceiver) -> None:
    body = b'{"canary": "in-the-body"}'
    post(receiver.port, body=body, headers=signed_headers(body, secret=b"wrong" * 5, x_canary="in-a-header", x_github_event="log-line"))

    wait_until(lambda: any("active secrets" in line.get("reason", "") for line in receiver.lines), what="the log line")

    line = next(line for line in receiver.lines if "active secrets" in line.get("reason", ""))
    assert (line["level"], line["code"], line["path"]) == ("info", "bad_signature", PATH)
    assert re.fullmatch(r"[0-9a-f]{32}", line["trace_id"])
    written = json.dumps(receiver.lines)
    assert "canary" not in written
    assert "Everybody" not in written


def get(port: int, path: str) -> Answer:
    return post(port, body=b"", headers={}, path=path, method="GET")


def test_operators_and_probes_are_answered(receiver: RunningReceiver) -> None:
    post_push(receiver.port)

    assert get(receiver.port, "/healthz").status == 200
    assert get(receiver.port, "/readyz").status == 200
    # The parent asks its receiver now and then, and may not have asked one that has just begun.
    wait_until(lambda: get(receiver.ops_port, "/readyz").status == 200, what="the parent has asked")
    assert b'queue_messages_produced_total{child="receiver-0",source="github",tenant="demo"}' in get(receiver.ops_port, "/metrics").body


def test_every_source_is_counted_from_the_start(home: Path, log: LogSettings) -> None:
    receiver = start_receiver(write_home(home, log=log))
    counted = b'queue_messages_produced_total{child="receiver-0",source="github",tenant="demo"} 0.0'
    wait_until(lambda: counted in get(receiver.ops_port, "/metrics").body.splitlines(), what="it is counted")
    receiver.stop()


def test_refused_requests_are_counted_by_code(receiver: RunningReceiver) -> None:
    post(receiver.port, body=b"{}", headers={}, path="/hooks/nobody/nothing")

    assert b'queue_messages_refused_total{child="receiver-0",code="unknown_source"}' in get(receiver.ops_port, "/metrics").body


def test_the_table_has_every_error_that_a_sender_can_meet() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Refused)]

    assert set(kinds) <= set(STATUSES)
    assert all(400 <= STATUSES[kind] < 500 for kind in kinds)


@pytest.mark.parametrize("error", [StreamUnavailable("redis://10.0.0.7 refused"), ConfigError("log.shards=4"), HooklakeError("a bug")])
def test_what_is_not_the_senders_fault_is_503_and_tells_nothing_of_our_insides(error: HooklakeError) -> None:
    status, headers, body = refused(error)

    assert status == 503
    assert int(dict(headers)[b"retry-after"]) >= 1
    assert str(error).encode() not in body


def test_every_error_class_has_a_status_and_none_is_500() -> None:
    assert status_of(Overloaded("full")) == 503
    assert status_of(StaleTimestamp("old")) == status_of(BadSignature("bad")) == 401
    assert 500 not in STATUSES.values()


def test_the_manual_page_has_the_statuses_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "ingest" / "README.md").read_text()

    documented = {(int(status), code) for status, code in re.findall(r"^\| (\d{3}) \| `(\w+)` \|", page, flags=re.MULTILINE)}

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, (Refused, errors.Unavailable))]
    concrete = [kind for kind in kinds if kind not in (Refused, errors.Unavailable, errors.TableUnavailable)]
    assert documented == {(status_of(kind("")), kind.code) for kind in concrete} | {(503, "unavailable")}
