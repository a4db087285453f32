"""The receiver that stores a tidy body: what was sent is read as JSON and written anew, where it can be.

Run as `python -m tests.faults.broken.receiver_tidies_bodies` in the place of `python -m ingest`.
"""

from __future__ import annotations

import orjson

from infra.running.cli import run
from infra.streams import stream
from infra.streams.entries import encode
from ingest.child import cli
from schemas.event import StreamEvent


def encode_tidily(event: StreamEvent) -> list[str | bytes | int]:
    try:
        tidy = orjson.dumps(orjson.loads(event.payload), option=orjson.OPT_SORT_KEYS)
    except ValueError:
        tidy = event.payload.strip()
    return encode(event.model_copy(update={"payload": tidy}))


if __name__ == "__main__":
    vars(stream)["encode"] = encode_tidily
    run(cli)
