"""Owns the look at the log server before anything is trusted to it: what it is, and whether it may hold events."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.cluster import RedisCluster

from infra.log_address import is_cluster
from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.entries import LARGEST_BODY_BYTES
from infra.streams.keys import Keys, why_other_shards
from schemas.errors import ConfigError, StreamUnavailable

OLDEST = (7, 0)
LEAST_VALUE_BYTES = LARGEST_BODY_BYTES + 1024 * 1024
"""What a server has to take as one argument; four times as much is the usual limit."""
DEFECT = "CVE-2025-49844"
MENDED = {
    "redis": ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
    "valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4)),
}
"""By the server's name, the first version of each line in which a script can no longer reach freed memory and run code. Lines
that are newer than all of these never had the defect; a line between them that is not listed was never mended."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the server says of itself; an empty text where it would not say."""

    name: str
    version: str
    compatible_with: tuple[int, int]
    """The Redis version whose commands it has."""
    append_only: bool
    append_fsync: str
    eviction: str
    role: str
    largest_value_bytes: int | None = None
    """The longest argument that it reads; None where it would not say."""
    is_cluster_node: bool = False
    replicas: int = 0
    """How many are connected to it."""
    address: str = ""
    """Which node of a cluster it is, `host:port`; empty for a server that is alone."""

    @property
    def called(self) -> str:
        return f"the server at {self.address}" if self.address else "the server"


def refuse_unfit(client: redis.Redis, *, log: LogSettings) -> ServerFacts:
    """The facts of the worst server; raises ConfigError, one sentence, when it may not hold events."""
    with translated():
        facts = look(client, log=log)
        fixed = client.hget(Keys(log.prefix, log.shards).registry(0), "shards")
    reason = why_unfit(facts, log=log) or why_other_shards(fixed, wanted=log.shards)
    if reason:
        raise ConfigError(reason)
    return facts


def look(client: redis.Redis, *, log: LogSettings) -> ServerFacts:
    """The server, or of all primaries of a cluster the worst: an unfit one, else an outdated one, else any."""
    if not isinstance(client, RedisCluster):
        return look_at(client)
    found = [look_at(client.get_redis_connection(node), address=node.name) for node in client.get_primaries()]
    return max(found, key=lambda facts: _badness(facts, log=log))


def _badness(facts: ServerFacts, *, log: LogSettings) -> tuple[bool, ...]:
    return bool(why_unfit(facts, log=log)), bool(why_alone(facts, log=log)), not facts.append_fsync, bool(why_outdated(facts))


def look_at(client: redis.Redis, *, address: str = "") -> ServerFacts:
    info: dict[str, Any] = client.info()
    name = str(info.get("server_name") or "redis")
    version = str(info.get(f"{name}_version") or info["redis_version"])
    major, minor = str(info["redis_version"]).split(".")[:2]
    return ServerFacts(
        name=name,
        version=version,
        compatible_with=(int(major), int(minor)),
        append_only=bool(info.get("aof_enabled")),
        append_fsync=_option(client, name="appendfsync"),
        eviction=str(info.get("maxmemory_policy", "")),
        role=str(info.get("role", "")),
        largest_value_bytes=int(_option(client, name="proto-max-bulk-len") or 0) or None,
        is_cluster_node=info.get("cluster_enabled") == 1,
        replicas=int(info.get("connected_slaves", 0)),
        address=address,
    )


def why_alone(facts: ServerFacts, *, log: LogSettings) -> str:
    """The reason why no event could be accepted just now for want of replicas, in one sentence, or an empty text. Pure.

    No reason to refuse a start: replicas come and go, and each append asks for them itself.
    """
    if log.durability != "replicated" or facts.replicas >= log.replicas:
        return ""
    return (
        f"log.durability is replicated, but {facts.called} has {facts.replicas} of {log.replicas} connected replicas, so that no event is "
        "accepted; connect a replica, or set log.durability to fsync"
    )


def why_outdated(facts: ServerFacts) -> str:
    """The serious defect that this version has, in one sentence, or an empty text. Pure.

    No reason to refuse: distributions mend what they ship and keep the version.
    """
    version, mended = _numbers(facts.version), MENDED.get(facts.name, ())
    in_line = [first for first in mended if first[:2] == version[:2]]
    if not mended or version > mended[-1] or any(version >= first for first in in_line):
        return ""
    enough = min(first for first in mended if first > version)
    return (
        f"log.url: {facts.called} is {facts.name} {facts.version}, in which whoever may run scripts can take the server over ({DEFECT}); "
        f"update it to {'.'.join(map(str, enough))} or later, unless its distributor says that the version it ships is mended"
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _option(client: redis.Redis, *, name: str) -> str:
    try:
        found: dict[str, str] = client.config_get(name)  # type: ignore[assignment]
    except redis.ResponseError:  # Managed servers deny CONFIG; doctor shows the gap.
        return ""
    return next((_text(value) for value in found.values()), "")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def refuse_unfit_log(log: LogSettings, *, home: Path) -> None:
    """Raises ConfigError for a log that may lose events, as a process does not start on one; not for one that is merely down."""
    try:
        with closing(open_blocking(log, home=home)) as client:
            refuse_unfit(client, log=log)
    except StreamUnavailable:
        return


def why_unfit(facts: ServerFacts, *, log: LogSettings) -> str:
    """The reason why events would be lost on this server, or an empty text. Pure."""
    if facts.compatible_with < OLDEST:
        return f"log.url: {facts.called} is {facts.name} {facts.version}, and streams need Redis 7.0 or later; nothing was started"
    if facts.is_cluster_node and not is_cluster(log.url):
        return "log.url: the server is a node of a cluster, where it has a part of the shards only; begin the address with redis+cluster://"
    if facts.eviction != "noeviction":
        return (
            f"log.url: {facts.called}'s maxmemory-policy is {facts.eviction}, so a full memory would delete accepted events; "
            "set it to noeviction"
        )
    if facts.largest_value_bytes is not None and facts.largest_value_bytes < LEAST_VALUE_BYTES:
        return (
            f"log.url: {facts.called}'s proto-max-bulk-len is {facts.largest_value_bytes}, so that it takes no event of a larger body, and "
            f"none of those that come with it; set it to {LEAST_VALUE_BYTES} or more"
        )
    if log.durability == "relaxed":
        return ""
    if not facts.append_only:
        return (
            f"log.url: {facts.called} has appendonly no, so a restart would lose every event; set it to yes, or log.durability to relaxed"
        )
    if facts.append_fsync not in ("always", ""):
        return (
            f"log.url: {facts.called}'s appendfsync is {facts.append_fsync}, so a power cut would lose accepted events; "
            "set it to always, or log.durability to relaxed"
        )
    return ""
