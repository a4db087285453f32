"""One trace from the POST over the append and each attempt to the batch that archived the event."""

from __future__ import annotations

import json
from typing import Any

from tests.end_to_end.installation import Installation
from tests.lake import archived


def spans(installation: Installation) -> list[dict[str, Any]]:
    path = installation.home / "traces.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_event_has_one_trace_from_post_to_batch(installation: Installation) -> None:
    said = installation.post(b'{"repository": {"full_name": "octo/traced"}}', delivery="one-trace")
    installation.until(installation.has_archived, "the event is archived")

    def attempt() -> dict[str, Any] | None:
        return next((span for span in spans(installation) if span["attributes"].get("event_id") == said["event_id"]), None)

    trace_id = installation.until(attempt, "the attempt's span is written")["trace_id"]

    def linked() -> bool:
        return any(trace_id in json.dumps(span.get("links")) for span in spans(installation) if span["name"] == "archive.batch")

    installation.until(linked, "the batch's span links to the event's trace")
    names = [span["name"] for span in spans(installation) if span["trace_id"] == trace_id]
    assert sorted(names) == ["ingest.receive", "log.append", "process"]
    (traceparent,) = [row["traceparent"] for row in archived(installation.home, "id", "traceparent") if row["id"] == said["event_id"]]
    assert traceparent.split("-")[1] == trace_id
    line = next(line for line in installation.log_of("worker-example").splitlines() if said["event_id"] in line)
    assert json.loads(line)["trace_id"] == trace_id
