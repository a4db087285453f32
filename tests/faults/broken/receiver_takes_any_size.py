"""The receiver that knows no cap of a body: what is too large goes to the log.

Run as `python -m tests.faults.receiver_of tests.faults.broken.receiver_takes_any_size` in the place of `python -m ingest`.
"""

from __future__ import annotations

from typing import Any

from infra.running.cli import run
from ingest import receive
from ingest.body import read_body, refuse_framing
from ingest.child import cli

ANY_SIZE = {"max_bytes": 10**9}


def refuse_nothing_large(*args: Any, **kwargs: Any) -> None:
    refuse_framing(*args, **{**kwargs, **ANY_SIZE})


async def read_all(*args: Any, **kwargs: Any) -> bytes:
    return await read_body(*args, **{**kwargs, **ANY_SIZE})


if __name__ == "__main__":
    vars(receive)["refuse_framing"] = refuse_nothing_large
    vars(receive)["read_body"] = read_all
    run(cli)
