"""The whole path: one signed POST, one run of a processor, one row with the identical bytes."""

from __future__ import annotations

import hashlib

from tests.end_to_end.installation import Installation

BODY = b'{"ref": "refs/heads/main", "repository": {"full_name": "octo/hello"},  "note": "two  spaces, \\u00e9, \xc3\xa9"}'
COLUMNS = "tenant_id, source, event_type, repository, hex(body) AS body, body_sha256, CAST(payload:ref AS STRING) AS ref, traceparent"


def test_an_event_reaches_its_table(installation: Installation) -> None:
    said = installation.post(BODY, delivery="an-event-reaches-its-table")

    installation.until(lambda: said["event_id"] in installation.log_of("worker-example"), "the example processor ran")
    installation.until(installation.has_archived, "the event is archived")
    (row,) = installation.query(f"SELECT {COLUMNS} FROM events WHERE id = '{said['event_id']}'")
    assert bytes.fromhex(row["body"]) == BODY
    assert row["body_sha256"] == hashlib.sha256(BODY).hexdigest()
    assert (row["tenant_id"], row["source"], row["event_type"]) == ("demo", "github", "github.push")
    assert (row["repository"], row["ref"]) == ("octo/hello", "refs/heads/main")
    assert row["traceparent"].startswith("00-")
