"""Owns what a connection may cost, and how long a server takes to go; known to those who do not serve themselves."""

from __future__ import annotations

import signal
from dataclasses import dataclass

LEAVE = signal.SIGUSR1
"""Tells a server to make way for others that serve already; `serving.py` says what differs from SIGTERM."""
WHOLE_BODY = "hooklake.whole_body"
"""In the scope of a request whose body is here to its last byte; whoever reads it then waits for nobody."""
PULSE = "hooklake.pulse"
"""In the scope of every request, for who sets deadlines of his own: whether its sender may be late because this process was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """What a connection may cost before the application sees a request."""

    head_timeout_ms: int = 5_000
    max_head_bytes: int = 65_536
    idle_timeout_ms: int = 30_000
    max_connections: int = 10_000
    """What connects above it is told 503, and leaves."""
    max_connections_per_address: int | None = None
    """The same for those of one client; half of all where nothing is set, so that the other half is left to the others."""
    grace_ms: int = 10_000
    """How long a stopping server works on what it has accepted."""
    drain_ms: int = 500
    """How long an idle connection of a stopping server may still bring a request, which is answered with `Connection: close`.
    Closing it at once would reset a request that is already on its way."""

    @property
    def share(self) -> int:
        """The most connections of one client."""
        return self.max_connections_per_address or max(1, self.max_connections // 2)

    @property
    def leave_within_ms(self) -> int:
        """How long a server takes at most that makes way for another."""
        return self.idle_timeout_ms + self.grace_ms
