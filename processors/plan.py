"""Owns what is known of a processor before any event comes: everything that need not be worked out per delivery."""

from __future__ import annotations

from collections.abc import Iterable

from structlog.typing import FilteringBoundLogger

from processors.circuit import Circuit
from processors.registry import ProcessorSpec
from processors.retry import RetryPolicy
from processors.settings import GroupSettings


class Plan:
    """One processor of one group, with the group's settings applied."""

    __slots__ = ("circuit", "group", "is_async", "keeps_order", "log", "max_attempts", "name", "policy", "spec", "timeout_ms", "timeout_s")

    def __init__(self, spec: ProcessorSpec, *, group: str, settings: GroupSettings, log: FilteringBoundLogger) -> None:
        self.spec = spec
        self.name = spec.name
        self.group = group
        self.policy = RetryPolicy(spec.max_attempts or settings.max_attempts, spec.retry or settings.retry_delays_ms)
        self.max_attempts = self.policy.max_attempts
        self.is_async = spec.is_async
        self.timeout_ms = spec.timeout_ms
        self.timeout_s = spec.timeout_ms / 1000
        self.keeps_order = spec.key
        self.circuit = Circuit(settings.circuit_failures, settings.circuit_open_ms / 1000)
        self.log = log


def plans(specs: Iterable[ProcessorSpec], *, group: str, settings: GroupSettings, log: FilteringBoundLogger) -> dict[str, Plan]:
    """By the processors' names."""
    return {spec.name: Plan(spec, group=group, settings=settings, log=log) for spec in specs}
