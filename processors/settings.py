"""Owns the settings sections `groups` and `dead_letters`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt

from infra.settings import Settings, Strict, check_name
from infra.streams.keys import ARCHIVE_GROUP
from schemas.errors import ConfigError


class GroupSettings(Strict):
    """One consumer group: which processors it runs, and how."""

    module: str = Field("", description="The module with the group's processors, or `module:function`; `work` may name it instead.")
    kind: Literal["durable"] = Field("durable", description="A durable group keeps its place, and the events it has not settled, for ever.")
    children: int = Field(1, ge=1, le=64, description="Processes of one `hooklake work`; start it again, here or elsewhere, for more.")
    batch_size: int = Field(256, ge=1, le=10_000, description="How many deliveries a worker holds at most, running and waiting.")
    concurrency: int = Field(32, ge=1, le=1000, description="How many of them run at once.")
    block_ms: int = Field(1000, ge=10, le=60_000, description="How long a read waits for new entries.")
    lease_ms: int = Field(30_000, ge=100, description="How long a silent worker keeps its deliveries; a living one renews them.")
    grace_ms: int = Field(5000, ge=0, description="How long a processor may run past its timeout before its process is ended and replaced.")
    max_attempts: int = Field(4, ge=1, description="Attempts before an event becomes a dead letter; @processor may say otherwise.")
    retry_delays_ms: tuple[NonNegativeInt, ...] = Field((0, 1000, 2000), description="Waits after the first, second, ... failed attempt.")
    ops_port: int = Field(
        9102, ge=0, le=65535, description="Metrics and health of the group's worker, all children together; 0 takes a free port."
    )


class DeadLetterSettings(Strict):
    """What becomes of events that a group gave up on."""

    retention: str = Field("168h", pattern=r"^[1-9][0-9]*h$", description="How long a dead letter is kept in the log at least.")


def group_settings(settings: Settings, name: str) -> GroupSettings:
    """The group's section, or the defaults for a group that has none; raises ConfigError.

    A group without a section has no port of its own either, and takes a free one: the default belongs to those that `up` runs.
    """
    check_name(name, at="groups")
    if name == ARCHIVE_GROUP:
        raise ConfigError("groups.archive: this name belongs to the archive, whose place in the log a worker would move")
    groups = settings.named_sections("groups", GroupSettings)
    settings.section("dead_letters", DeadLetterSettings)
    return groups.get(name, GroupSettings(ops_port=0))
