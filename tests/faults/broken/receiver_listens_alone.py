"""Receivers that share the port and not the socket (SO_REUSEPORT): what waits in the queue of one that leaves is reset.

Run as `python -m tests.faults.broken.receiver_listens_alone` in the place of `python -m ingest`, and of `python -m ingest.child`.
"""

from __future__ import annotations

import socket
import sys

from infra.running.cli import run
from infra.running.sockets import BACKLOG, inherited
from ingest import __main__ as parent
from ingest import child
from ingest.settings import IngestSettings


def reserve(ingest: IngestSettings, *, host: str | None, port: int | None) -> socket.socket:
    """Takes the port without listening on it."""
    return bound((host or ingest.host, port or ingest.port))


def bound(address: tuple[str, int]) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(address)
    return found


def own_listener(descriptor: int) -> socket.socket:
    given = socket.socket(fileno=descriptor)
    if given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return inherited(given.detach())
    listener = bound(given.getsockname())
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        child.inherited = own_listener  # type: ignore[attr-defined]
        run(child.cli)
    parent._listen = reserve
    parent.CHILD_MODULE = "tests.faults.broken.receiver_listens_alone"
    run(parent.cli)
