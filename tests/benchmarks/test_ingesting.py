from __future__ import annotations

import hashlib
import hmac
import re
import sys
from pathlib import Path

import pytest

from tests.benchmarks.ingesting import Received, latency_rows, rows_of
from tests.benchmarks.receivers import all_receiving
from tests.benchmarks.rows import Row
from tests.benchmarks.wrk import body_of, headers_of
from tests.documents import ROOT, table_rows

PAGE = ROOT / "tests" / "benchmarks" / "README.md"
RATES = {
    "starlette": 10_000.0,
    "least-durable": 8_000.0,
    "flat": 5_000.0,
    "hooklake": 6_000.0,
    "fastapi-celery": 1_000.0,
    "two-receivers": 9_000.0,
    "many-sources": 4_000.0,
    "spool": 3_000.0,
}


def received(rate: float, *, server_us: int = 1) -> Received:
    """Whose receiver takes as many µs of a request as it answers requests a second."""
    requests = int(rate) * 10
    return Received(requests, 10.0, receiver_s=requests * rate / 1e6, server_s=requests * server_us / 1e6, busy_s=rate / 1_000)


def all_rows() -> list[Row]:
    names = [contender.name for contender in all_receiving(Path(sys.executable))]
    found = {name: [received(RATES[name], server_us=len(name))] for name in names}
    return [*rows_of(found, long=[(received(4_500), 100.0)], hashing_us=[1_500.0]), *latency_rows([[1.0] * 990 + [30.0] * 10])]


def test_every_row_is_on_the_page_with_its_goal() -> None:
    on_page = {
        name: line.split("|")[3].strip()
        for line in table_rows(PAGE, heading="ingest", first="row")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }

    assert on_page == {row.name: f"{row.goal.kind} {row.goal.bound:g}" if row.goal else "" for row in all_rows()}


def test_goals_are_judged_against_the_right_anchor() -> None:
    rows = {row.name: row for row in all_rows()}

    assert {name: row.met for name, row in rows.items() if row.goal} == {
        "ingest/starlette": True,
        "ingest/fastapi-celery": True,
        "ingest/many-sources": False,
        "ingest/spool": True,
        "ingest/memory": True,
        "ingest/latency-p99": True,
    }
    assert (rows["ingest/two-receivers"].ratio, rows["ingest/many-sources"].ratio) == (1.5, 1.5)
    assert (rows["ingest/least-durable"].ratio, rows["ingest/least-durable-starlette"].ratio) == (0.75, 0.8)
    assert (rows["ingest/flat"].ratio, rows["ingest/flat-starlette"].ratio) == (1.2, 0.5)
    assert rows["ingest/receiver-time"].ratio == 0.6
    assert rows["ingest/server-time"].ratio == pytest.approx(len("hooklake") / len("least-durable"))
    assert (rows["ingest/growing"].ratio, rows["ingest/memory"].ours.median) == (0.75, 100.0)
    assert rows["ingest/hashing-time"].ratio == 0.25
    assert rows["ingest/server-busy"].ours.median == 60.0
    assert rows["ingest/latency-p99.9"].ours.median == 30.0


def test_the_body_has_its_size_and_its_signature_is_the_secret_s() -> None:
    body = body_of(10_000)

    digest = hmac.new(b"secret", body, hashlib.sha256).hexdigest()
    assert (len(body), headers_of(body, secret=b"secret")["X-Hub-Signature-256"]) == (10_000, f"sha256={digest}")


def test_turns_of_a_contender_are_added_up() -> None:
    slow, fast = Received(1_000, 2.0, receiver_s=0.5, server_s=0.25, busy_s=1.0), Received(3_000, 2.0, 0.5, server_s=0.75, busy_s=2.0)

    both = Received.sum_of([slow, fast])

    assert (both.per_second, both.receiver_us, both.server_us, both.busy_percent) == (1_000.0, 250.0, 250.0, 75.0)
