"""Owns what a supervisor is told about a process: how it is started, when it is ready, how it is stopped and started again. Pure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How long to wait before the n-th restart in a row; a child that was up for `healthy_s` begins anew. Pure."""

    first_s: float = 0.5
    cap_s: float = 30.0
    healthy_s: float = 30.0

    def delay_s(self, deaths: int) -> float:
        return float(min(self.cap_s, self.first_s * 2 ** min(deaths - 1, 20)))

    def deaths_after(self, deaths: int, *, lived_s: float) -> int:
        """How many deaths in a row there are, with the one of a child that lived so long."""
        return 1 if lived_s >= self.healthy_s else deaths + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One process to keep running."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    is_ready: Callable[[], bool]
    stop_stage: int
    """Stages stop one after the other, lowest first; children of one stage stop together."""
    after: str = ""
    """Starts when this one is ready, or after `patience_s` without."""
    patience_s: float = float("inf")
    why_not: Callable[[], str] | None = None
    """Asked once before the first start: a sentence means that this machine has to do without the child."""
    is_alive: Callable[[], bool] | None = None
    """Asked now and then; a child that has not answered for `hung_after_s` can do nothing any more, and is killed."""
    hung_after_s: float = float("inf")
    why_unready: Callable[[], str] | None = None
    """Asked once when it runs and is not ready for `slow_after_s`: what a person should know about it."""
    slow_after_s: float = 10.0
    grace_s: float = 20.0
    """How long it may take to stop before it is killed."""
    leave_signal: signal.Signals = signal.SIGTERM
    """What tells it to stop while its parent goes on, because another takes its place or it is in excess."""
    leave_grace_s: float | None = None
    """How long it may take then; None: as when everything stops."""
    pass_fds: tuple[int, ...] = ()

    @property
    def leave_within_s(self) -> float:
        return self.grace_s if self.leave_grace_s is None else self.leave_grace_s


def stop_stages(children: Sequence[Child]) -> list[list[str]]:
    """The names in the order of stopping. Pure."""
    stages = sorted({child.stop_stage for child in children})
    return [[child.name for child in children if child.stop_stage == stage] for stage in stages]


def describe_end(returncode: int) -> str:
    return f"died (signal {-returncode})" if returncode < 0 else f"exited with {returncode}"
