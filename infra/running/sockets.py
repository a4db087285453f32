"""Owns listening sockets: made once by whoever supervises, inherited by the processes that serve on them."""

from __future__ import annotations

import errno
import socket

from schemas.errors import ConfigError

BACKLOG = 2048


def listen(host: str, *, port: int, setting: str, host_setting: str = "", consequence: str = "nothing could be received") -> socket.socket:
    """A listening socket; raises ConfigError naming the setting at fault when the address cannot be had. Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Not SO_REUSEPORT: two servers would share the port, and one that closes resets what waits in its own queue.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        listener.close()
        raise ConfigError(_why_not(error, host=host, port=port, setting=setting, host_setting=host_setting, so=consequence)) from error
    listener.setblocking(False)
    return listener


def _why_not(error: OSError | UnicodeError, *, host: str, port: int, setting: str, host_setting: str, so: str) -> str:
    reason = error.strerror if isinstance(error, OSError) else "no name of a host"
    is_about_host = not isinstance(error, OSError) or isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    if is_about_host and host_setting:
        return f"{host_setting}={host} is no address of this machine ({reason}), so {so}: set one that it has"
    advice = "take one above 1023" if isinstance(error, OSError) and error.errno == errno.EACCES else "stop what listens there"
    return f"{setting}={port} cannot be used on {host} ({reason}), so {so}: {advice}, or set another port"


def reachable(host: str) -> str:
    """Where a process of this machine asks what listens on `host`: who listens everywhere is asked at home."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


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
