"""The receiver that stores a tidy body: what was sent is read as JSON and written anew, where it can be.

Run as `python -m tests.faults.broken.receiver_tidies_bodies` in the place of `python -m ingest`.
"""

from __future__ import annotations

from typing import Any

import orjson

from infra.running.cli import run
from infra.streams import prepared
from infra.streams.entries import values_of
from infra.streams.prepared import Form, Prepared
from ingest.child import cli
from schemas.event import StreamEvent

really = Form.fill


def tidy(body: bytes) -> bytes:
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)
    except ValueError:
        return body.strip()


def tidy_values_of(event: StreamEvent) -> list[str | bytes | int]:
    return values_of(event.model_copy(update={"payload": tidy(event.payload)}))


def tidy_fill(form: Form, event_id: str, *, payload: bytes, **rest: Any) -> Prepared:
    return really(form, event_id, payload=tidy(payload), **rest)


if __name__ == "__main__":
    vars(prepared)["values_of"] = tidy_values_of
    Form.fill = tidy_fill  # type: ignore[assignment]
    run(cli)
