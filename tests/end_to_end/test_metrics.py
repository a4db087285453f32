"""Every process tells its numbers on its ops port, by the names that dashboards know."""

from __future__ import annotations

import re

import httpx

from tests.end_to_end.installation import Installation

PORTS = {"receiver": "INGEST__OPS_PORT", "worker": "GROUPS__EXAMPLE__OPS_PORT", "archive": "ARCHIVE__OPS_PORT"}


def value_of(installation: Installation, process: str, *, metric: str) -> float:
    """The sum over all labels."""
    port = installation.environment[f"HOOKLAKE_{PORTS[process]}"]
    page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
    return sum(float(value) for value in re.findall(rf"^{metric}(?:\{{.*\}})? (\S+)$", page, flags=re.M))


def test_the_processes_count_an_event(installation: Installation) -> None:
    installation.until(installation.is_ready, "all is ready")
    metrics = [
        ("receiver", "queue_messages_produced_total"),
        ("worker", "queue_messages_consumed_total"),
        ("worker", "queue_processing_duration_seconds_count"),
        ("archive", "queue_messages_consumed_total"),
    ]
    before = {at: value_of(installation, at[0], metric=at[1]) for at in metrics}

    installation.post(b"{}", delivery="the-processes-count-an-event")

    installation.until(installation.has_archived, "the event is archived")
    expected = {at: value + 1 for at, value in before.items()}
    for process in ("worker", "archive"):
        expected[process, "queue_consumer_lag"] = 0

    def values() -> dict[tuple[str, str], float]:
        return {at: value_of(installation, at[0], metric=at[1]) for at in expected}

    installation.until(lambda: values() == expected, "every process counted the event")
    assert value_of(installation, "worker", metric="queue_messages_failed_total") == 0
