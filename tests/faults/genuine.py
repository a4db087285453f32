"""Owns genuine posts over raw sockets, whole or in pieces, to one of two tenants, and what is said of how long they take."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import yaml

from infra.running.initialise import initialise
from infra.settings import FILE_NAME
from tests.faults.receiver_process import BODY, ReceiverProcess

TENANT, OTHER_TENANT = "demo", "other"
REFUSED = 0
"""No answer at all."""
DEADLINE_S = 10.0
MOST_TIMES_SLOWER = 5
NEVER_SLOW_S = 0.02
"""A busy machine may take as long as that for a post on any day."""


class Send(Protocol):
    """One genuine event over a connection of its own; the status, or REFUSED."""

    def __call__(self, running: ReceiverProcess, *, home: Path, tenant: str = TENANT, deadline_s: float = DEADLINE_S) -> int: ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Some posts, one after the other."""

    statuses: set[int]
    median_s: float

    def is_held_up(self, *, before: Measured) -> bool:
        """By far more than a busy machine takes longer for some of them."""
        return self.median_s > MOST_TIMES_SLOWER * max(before.median_s, NEVER_SLOW_S)


def initialise_two_tenants(home: Path) -> None:
    """A new home whose second tenant has the sources of its first."""
    initialise(home)
    settings = home / FILE_NAME
    content = yaml.safe_load(settings.read_text())
    content["tenants"][OTHER_TENANT] = content["tenants"][TENANT]
    settings.write_text(yaml.safe_dump(content))


def send_signed(running: ReceiverProcess, *, home: Path, tenant: str = TENANT, deadline_s: float = DEADLINE_S) -> int:
    """Head and body at once."""
    return _sent(running, [signed_head(home, tenant=tenant) + BODY], deadline_s=deadline_s)


def send_in_pieces(running: ReceiverProcess, *, home: Path, tenant: str = TENANT, deadline_s: float = DEADLINE_S) -> int:
    """The body does not come before the receiver waits for it."""
    head = signed_head(home, tenant=tenant, more="Expect: 100-continue\r\n")
    return _sent(running, [head, BODY[:9], BODY[9:]], deadline_s=deadline_s)


def measured(running: ReceiverProcess, *, sends: Sequence[Send], home: Path, count: int, deadline_s: float = DEADLINE_S) -> Measured:
    """So many posts of each kind to the second tenant; what has no answer within the deadline took as long as that."""
    statuses: set[int] = set()
    seconds: list[float] = []
    for _ in range(count):
        began = time.monotonic()
        statuses.update(send(running, home=home, tenant=OTHER_TENANT, deadline_s=deadline_s) for send in sends)
        seconds.append(time.monotonic() - began)
    return Measured(statuses, median(seconds))


def signed_head(home: Path, *, tenant: str, more: str = "") -> bytes:
    digest = hmac.new((home / "secrets" / "demo-github").read_bytes().strip(), BODY, hashlib.sha256).hexdigest()
    return (
        f"POST /hooks/{tenant}/github HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"
        f"X-GitHub-Delivery: {uuid.uuid4()}\r\nX-Hub-Signature-256: sha256={digest}\r\nContent-Length: {len(BODY)}\r\n{more}\r\n"
    ).encode()


def _sent(running: ReceiverProcess, pieces: Sequence[bytes], *, deadline_s: float) -> int:
    """The status of the answer; what follows the first piece is sent only to who wants it."""
    try:
        with socket.create_connection(("127.0.0.1", running.port), timeout=deadline_s) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(pieces[0])
            if len(pieces) > 1 and (status := _status(connection)) != 100:
                return status
            for piece in pieces[1:]:
                connection.sendall(piece)
            return _status(connection)
    except (ConnectionError, TimeoutError, IndexError):
        return REFUSED


def _status(connection: socket.socket) -> int:
    return int(connection.recv(65536).split()[1])
