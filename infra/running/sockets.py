"""Owns listening sockets: made once by whoever supervises, inherited by the processes that serve on them."""

from __future__ import annotations

import socket

from schemas.errors import ConfigError

BACKLOG = 2048


def listen(host: str, *, port: int, setting: str, consequence: str = "nothing could be received") -> socket.socket:
    """A listening socket; raises ConfigError naming `setting` when the address cannot be had. Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Not SO_REUSEPORT: two servers would share the port, and one that closes resets what waits in its own queue.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{setting}={port} cannot be used on {host} ({error.strerror}), so {consequence}: stop what listens there, or set another port"
        ) from error
    listener.setblocking(False)
    return listener


def inherited(descriptor: int) -> socket.socket:
    """The listening socket that a supervisor passed on; raises ConfigError when it is none."""
    try:
        listener = socket.socket(fileno=descriptor)
        is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ConfigError(f"--fd {descriptor} is no socket ({error.strerror}), so nothing could be received on it") from error
    if not is_listening:
        listener.detach()
        raise ConfigError(f"--fd {descriptor} is a socket that does not listen, so nothing could be received on it")
    listener.setblocking(False)
    return listener
