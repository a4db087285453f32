"""Owns the choice of what a group runs: the processors of a module, or the forwarder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from processors.forward import forwarding
from processors.registry import Registry, load
from processors.settings import GroupSettings
from schemas.errors import ConfigError


def module_of(options: GroupSettings, *, group: str, named: str) -> str:
    """The module that the group runs, `named` before the settings' own; empty when it forwards. Raises ConfigError."""
    module = named or options.module
    if module and options.forward is not None:
        raise ConfigError(
            f"groups.{group} has a module and forward, and an event goes to one processor only: give one of them a group of its own"
        )
    if not module and options.forward is None:
        raise ConfigError(
            f"groups.{group} has neither module nor forward and no module was named, so group {group} would have nothing to run"
        )
    return module


@asynccontextmanager
async def assigned(group: str, *, options: GroupSettings, module: str, home: Path) -> AsyncIterator[Registry]:
    """The group's registry; what it holds open is closed at the end. Raises ConfigError."""
    if options.forward is None:
        yield load(module)
        return
    at = f"groups.{group}.forward"
    async with forwarding(options.forward, at=at, home=home, connections=options.concurrency) as spec:
        yield Registry([spec])
