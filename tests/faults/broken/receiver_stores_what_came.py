"""The receiver that takes what came of a body for the body, when its sender goes away in the middle.

Run as `python -m tests.faults.receiver_of tests.faults.broken.receiver_stores_what_came` in the place of `python -m ingest`.
"""

from __future__ import annotations

from starlette.types import Receive

from infra.running.cli import run
from ingest import receive as receiving
from ingest.child import cli
from ingest.limits import Held


async def read_what_comes(receive: Receive, *, max_bytes: int, held: Held) -> bytes:
    came: bytes = b""
    while True:
        message = await receive()
        came += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return came


if __name__ == "__main__":
    receiving.read_body = read_what_comes  # type: ignore[attr-defined]  # it is imported there
    run(cli)
