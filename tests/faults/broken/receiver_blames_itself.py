"""The receiver that takes a sender's mistake for its own: what is malformed is answered with 500.

Run as `python -m tests.faults.broken.receiver_blames_itself` in the place of `python -m ingest`.
"""

from __future__ import annotations

from infra.running.cli import run
from ingest import app
from ingest.child import cli
from schemas.errors import HooklakeError, MalformedRequest

really_status = app.status_of


def status_of(error: HooklakeError) -> int:
    return 500 if isinstance(error, MalformedRequest) else really_status(error)


if __name__ == "__main__":
    app.status_of = status_of
    run(cli)
