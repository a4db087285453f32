"""Owns the ports that tests listen on: each is given once in a run, and nobody else comes upon it by chance."""

from __future__ import annotations

import itertools
import os
import random
import socket

from infra.settings import environment_value

# Below those that systems give to outgoing connections (32768 and above), or one that a test opens might take the port before the test's
# own server does. Each process of a run has a part of its own.
FIRST, EACH = 12_000, 2_500
_part = int(environment_value("PYTEST_XDIST_WORKER").removeprefix("gw") or 7) % 8
_places = itertools.count(random.Random(os.getpid()).randrange(EACH))


def free_port() -> int:
    """A port that this process has not been given before, and that nobody listened on a moment ago."""
    while True:
        port = FIRST + _part * EACH + next(_places) % EACH
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def is_listening(port: int) -> bool:
    """Whether anybody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True
