"""The receiver that sets no deadline to the head of a request: who never ends one keeps his connection.

Run as `python -m tests.faults.broken.receiver_waits_for_ever` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.running.connections import Connection
from ingest.child import cli


def no_deadline(connection: Connection, seconds: float) -> None:
    return


if __name__ == "__main__":
    Connection._arm = no_deadline  # type: ignore[assignment, method-assign]
    run(cli)
