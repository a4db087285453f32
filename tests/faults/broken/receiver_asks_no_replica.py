"""The receiver that takes the primary's word for its replicas': what they have not got is accepted, and gone when they take over.

Run as `python -m tests.faults.broken.receiver_asks_no_replica` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.settings import LogSettings
from infra.streams import connection
from ingest.child import cli


def nobody(log: LogSettings) -> None:
    return None


if __name__ == "__main__":
    connection.confirmation_of = nobody
    run(cli)
