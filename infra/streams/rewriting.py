"""Owns making the log's servers write their files anew, so that nothing is left in them of what was deleted. Blocking."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import redis
from redis.cluster import RedisCluster

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from schemas.errors import StreamUnavailable

PATIENCE_S = 600.0


def rewrite_files(log: LogSettings, *, home: Path) -> list[str]:
    """Returns when it is done, with what was rewritten; raises StreamUnavailable where a server fails to, or may not be asked."""
    client = open_blocking(log, home=home)
    try:
        with translated():
            return [said for server in _servers(client) for said in _rewrite(server)]
    finally:
        client.close()


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
