"""Owns having the signatures of rows verified again, by a process of the receiver's code: this package never imports it."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import orjson
from pyspark.sql import DataFrame, Row

from schemas.errors import RequestFailed
from schemas.event import to_epoch_ms

MODULE = "ingest.verify_again"
AT_ONCE = 100
INCOMPLETE = "incomplete"
"""A part whose other parts have no rows here: they were duplicates, erased, or lie outside of the window."""
MOST_NAMED = 20


class Verifier:
    """The process that verifies; use it for a block."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", MODULE]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def words(self, requests: list[dict[str, Any]]) -> list[str]:
        """A word for each; few enough that neither side waits for the other to read. Raises RequestFailed when the process died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(b"".join(orjson.dumps(request) + b"\n" for request in requests))
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # What it said before it died is read below.
        words = [self._process.stdout.readline().decode().strip() for _ in requests]
        if not all(words):
            said = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise RequestFailed(f"signatures could not be verified again: {said[-1] if said else 'the process ended'}")
        return words


def reverify(rows: DataFrame) -> tuple[Counter[str], list[str]]:
    """How many rows have each word, and the ids of some that are invalid."""
    counted: Counter[str] = Counter()
    invalid: list[str] = []
    with Verifier() as verifier:
        requests = requests_of(rows)
        while some := list(islice(requests, AT_ONCE)):
            whole = [(ids, request) for ids, request in some if request is not None]
            words = iter(verifier.words([request for _, request in whole]))
            for ids, request in some:
                word = INCOMPLETE if request is None else next(words)
                counted[word] += len(ids)
                invalid += ids[: MOST_NAMED - len(invalid)] if word == "invalid" else []
    return counted, invalid


def requests_of(rows: DataFrame) -> Iterator[tuple[list[str], dict[str, Any] | None]]:
    """Ids of the events of each request, and the request as it was signed; None when a part of it is missing."""
    events = rows.where("decode_error IS NULL")
    for row in events.where("part IS NULL").toLocalIterator():
        yield [row.id], _request(row, body=bytes(row.body))
    parts = events.where("part IS NOT NULL").orderBy("tenant_id", "source", "part.body_sha256", "received_at", "part.number")
    for _, of_body in groupby(parts.toLocalIterator(), key=lambda row: (row.tenant_id, row.source, row.part.body_sha256, row.received_at)):
        found = list(of_body)
        body = whole_body(found)
        ids = [row.id for row in found]
        yield ids, _request(found[0], body=body) if body is not None else None


def whole_body(parts: Iterable[Row]) -> bytes | None:
    """The body that the parts were cut from; None when they are not all there. Pure."""
    found = list(parts)
    body = b"".join(part.part.before.encode() + bytes(part.body) + part.part.after.encode() for part in found)
    return body if hashlib.sha256(body).hexdigest() == found[0].part.body_sha256 else None


def _request(row: Row, *, body: bytes) -> dict[str, Any]:
    auth = row.auth_context
    return {
        "tenant": row.tenant_id,
        "source": row.source,
        "body": base64.b64encode(body).decode(),
        "scheme": auth.scheme,
        "key_id": auth.key_id,
        "signature_headers": auth.signature_headers,
        "signed_url": auth.signed_url,
        "content_type": row.content_type,
        "received_ms": to_epoch_ms(row.received_at),
    }
