"""The receiver that lets uvicorn's timer of an idle connection run on when a client has reset it: its last request stays in memory.

Run as `python -m tests.faults.broken.receiver_keeps_what_was_reset` in the place of `python -m ingest`.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from infra.running.cli import run
from infra.running.connections import Connection
from ingest.child import cli


def connection_lost(connection: Connection, exc: Exception | None) -> None:
    connection._disarm()
    HttpToolsProtocol.connection_lost(connection, exc)


if __name__ == "__main__":
    Connection.connection_lost = connection_lost  # type: ignore[assignment, method-assign]
    run(cli)
