"""Owns making the log's servers write their files anew, so that nothing is left in them of what was deleted. Blocking."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import redis
from redis.cluster import RedisCluster

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from schemas.errors import StreamUnavailable

PATIENCE_S = 600.0


class Rewritten(NamedTuple):
    """What was written anew, and sentences about what could not be."""

    done: list[str]
    left: list[str]


def rewrite_files(log: LogSettings, *, home: Path) -> Rewritten:
    """Returns when it is done; raises StreamUnavailable where a server fails to. One that may not be asked to is left as it is."""
    rewritten, client = Rewritten([], []), open_blocking(log, home=home)
    try:
        with translated():
            for server in _servers(client):
                try:
                    rewritten.done.extend(_rewrite(server))
                except redis.ResponseError as error:
                    if not is_refusal(error):
                        raise
                    rewritten.left.append(
                        f"bytes in the files of the log's server, until it rewrites them: it refuses to be asked ({error})"
                    )
    finally:
        client.close()
    return rewritten


def is_refusal(error: redis.ResponseError) -> bool:
    """Whether it would be answered in the same way another time, as by managed servers. Pure."""
    return isinstance(error, redis.exceptions.NoPermissionError) or "unknown command" in str(error).lower()


def _servers(client: Any) -> list[Any]:
    """Those that we talk to: one, or all nodes of a cluster. Replicas outside a cluster are not known here."""
    if isinstance(client, RedisCluster):
        return [client.get_redis_connection(node) for node in client.get_nodes()]  # type: ignore[no-untyped-call]
    return [client]


def _rewrite(server: redis.Redis) -> list[str]:
    done = []
    if _persistence(server).get("aof_enabled"):
        _wait(server, "aof_rewrite_in_progress", "aof_rewrite_scheduled")
        server.bgrewriteaof()
        _wait(server, "aof_rewrite_in_progress", "aof_rewrite_scheduled")
        _refuse_failure(server, "aof_last_bgrewrite_status")
        done.append("append-only file")
    if _saves_snapshots(server):
        _wait(server, "rdb_bgsave_in_progress")
        server.bgsave()
        _wait(server, "rdb_bgsave_in_progress")
        _refuse_failure(server, "rdb_last_bgsave_status")
        done.append("snapshot")
    return done


def _persistence(server: redis.Redis) -> dict[str, Any]:
    found: Any = server.info("persistence")
    return dict(found)


def _saves_snapshots(server: redis.Redis) -> bool:
    configured: Any = server.config_get("save")
    return bool(configured.get("save"))


def _wait(server: redis.Redis, *flags: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(_persistence(server).get(flag) for flag in flags):
        if time.monotonic() > deadline:
            raise StreamUnavailable(f"the log's server has not written its files anew within {PATIENCE_S:.0f} s")
        time.sleep(0.05)


def _refuse_failure(server: redis.Redis, flag: str) -> None:
    if _persistence(server).get(flag) != "ok":
        raise StreamUnavailable("the log's server could not write its files anew: see its log; its disk may be full")
