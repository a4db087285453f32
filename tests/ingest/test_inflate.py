"""Compressed bodies: looked into with care, stored as they were sent."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.entries import decode
from infra.streams.keys import Keys
from ingest.inflate import HIGHEST_RATIO, PIECE_BYTES, plain_body
from schemas.errors import BodyTooLarge, MalformedRequest
from tests.infra.streams.raw import open_raw
from tests.ingest.receivers import PUSH, SOURCES, RunningReceiver, fresh_prefix, post_push, start_receiver, wait_until, write_home

LARGE = 10 * 1024 * 1024


def test_what_is_not_compressed_stays_as_it_is() -> None:
    assert plain_body(PUSH, encoding="", max_bytes=10) is PUSH
    assert plain_body(PUSH, encoding="identity", max_bytes=10) is PUSH


@pytest.mark.parametrize("name", ["gzip", "GZip"])
def test_gzip_is_looked_into(name: str) -> None:
    assert plain_body(gzip.compress(PUSH), encoding=name, max_bytes=1000) == PUSH


def test_several_members_are_one_body() -> None:
    assert plain_body(gzip.compress(b"one ") + gzip.compress(b"two"), encoding="gzip", max_bytes=1000) == b"one two"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(PUSH, id="plain"),
        pytest.param(gzip.compress(PUSH)[:-9], id="cut in its data"),
        pytest.param(gzip.compress(PUSH)[:-1], id="cut in its check sum"),
        pytest.param(gzip.compress(PUSH)[:-5] + b"\0" + gzip.compress(PUSH)[-4:], id="another check sum"),
        pytest.param(gzip.compress(PUSH) + b"and more", id="more behind it"),
        pytest.param(gzip.compress(PUSH)[:5], id="cut in its head"),
    ],
)
def test_what_is_no_gzip_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="gzip"):
        plain_body(body, encoding="gzip", max_bytes=1000)


def test_a_body_may_be_as_large_as_its_source_allows_and_no_larger() -> None:
    text = bytes(range(256)) * 4

    assert plain_body(gzip.compress(text), encoding="gzip", max_bytes=1024) == text
    with pytest.raises(BodyTooLarge, match="1023 bytes"):
        plain_body(gzip.compress(text), encoding="gzip", max_bytes=1023)


def test_a_bomb_is_refused_by_its_ratio() -> None:
    bomb = gzip.compress(b"\0" * LARGE)
    assert len(bomb) * HIGHEST_RATIO < LARGE

    with pytest.raises(BodyTooLarge):
        plain_body(bomb, encoding="gzip", max_bytes=LARGE)


def test_many_members_are_bounded_together() -> None:
    with pytest.raises(BodyTooLarge):
        plain_body(gzip.compress(b"x" * 90) * 20, encoding="gzip", max_bytes=1000)


def test_members_that_cross_the_pieces_that_are_read_are_one_body() -> None:
    text = random.Random(7).randbytes(3 * PIECE_BYTES)
    body = b"".join(gzip.compress(text[start : start + 700]) for start in range(0, len(text), 700))

    assert plain_body(body, encoding="gzip", max_bytes=len(text)) == text


def test_very_many_members_with_nothing_in_them_cost_no_time() -> None:
    body = gzip.compress(b"") * 500_000
    began = time.process_time()

    with pytest.raises(MalformedRequest, match="more than 1000 members"):
        plain_body(body, encoding="gzip", max_bytes=LARGE)

    assert time.process_time() - began < 1


@pytest.fixture(scope="module")
def gzip_log(log_server: EmbeddedServer) -> LogSettings:
    return LogSettings(url=log_server.url, prefix=fresh_prefix())


@pytest.fixture(scope="module")
def gzip_home(tmp_path_factory: pytest.TempPathFactory, gzip_log: LogSettings) -> Path:
    sources = {"github": {**SOURCES["github"], "encodings": ["gzip"], "max_body_bytes": 2000}}
    return write_home(tmp_path_factory.mktemp("gzip"), log=gzip_log, tenants={"demo": {"sources": sources}})


@pytest.fixture(scope="module")
def gzip_receiver(gzip_home: Path) -> Iterator[RunningReceiver]:
    running = start_receiver(gzip_home)
    wait_until(lambda: post_push(running.port).status == 202, what="the receiver is ready")
    yield running
    running.stop()


def test_a_compressed_body_is_stored_as_it_was_sent_and_described_by_what_it_says(
    gzip_receiver: RunningReceiver, gzip_log: LogSettings, gzip_home: Path
) -> None:
    body = gzip.compress(PUSH)

    accepted = post_push(gzip_receiver.port, body=body, content_encoding="gzip")

    client, keys = open_raw(gzip_log, home=gzip_home), Keys(gzip_log.prefix, gzip_log.shards)
    entries = [fields for shard in keys.all_shards() for _, fields in client.xrange(keys.events(shard, "default"))]
    client.close()
    event = next(decode(fields) for fields in entries if fields[b"id"].decode() == accepted.json["event_id"])
    assert (accepted.status, event.payload, event.repository) == (202, body, "octo/hello")
    assert event.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        pytest.param(gzip.compress(b"\0" * 100_000), "gzip", 413, id="a bomb"),
        pytest.param(gzip.compress(b'{"a": "%b"}' % (b"x" * 2000)), "gzip", 413, id="too large"),
        pytest.param(PUSH, "gzip", 400, id="no gzip"),
        pytest.param(gzip.compress(gzip.compress(PUSH)), "gzip, gzip", 415, id="two layers"),
        pytest.param(gzip.compress(gzip.compress(PUSH)), "gzip", 400, id="two layers, one named"),
        pytest.param(PUSH, "br", 415, id="another encoding"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(gzip_receiver: RunningReceiver, body: bytes, encoding: str, status: int) -> None:
    assert post_push(gzip_receiver.port, body=body, content_encoding=encoding).status == status


def test_a_bad_signature_is_found_before_anything_is_decompressed(gzip_receiver: RunningReceiver) -> None:
    answer = post_push(gzip_receiver.port, body=b"no gzip", content_encoding="gzip", x_hub_signature_256="sha256=" + "00" * 32)

    assert answer.status == 401
