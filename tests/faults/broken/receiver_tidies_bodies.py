"""The receiver that stores a tidy body: what was sent is read as JSON and written anew, where it can be.

Run as `python -m tests.faults.broken.receiver_tidies_bodies` in the place of `python -m ingest`.
"""

from __future__ import annotations

import orjson

from infra.running.cli import run
from infra.streams import gathering
from infra.streams.entries import values_of
from ingest.child import cli
from schemas.event import StreamEvent


def tidy_values_of(event: StreamEvent) -> list[str | bytes | int]:
    try:
        tidy = orjson.dumps(orjson.loads(event.payload), option=orjson.OPT_SORT_KEYS)
    except ValueError:
        tidy = event.payload.strip()
    return values_of(event.model_copy(update={"payload": tidy}))


if __name__ == "__main__":
    vars(gathering)["values_of"] = tidy_values_of
    run(cli)
