"""Owns the way to the log server: its address, its clients, and the translation of every redis-py error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry as RedisRetry

from infra.log_address import EMBEDDED, is_cluster, is_sentinel, node_address, seed_nodes
from infra.settings import LogSettings
from infra.streams.cluster import ClusterPipeline
from infra.streams.pipelining import Pipeline, ServerPipeline
from infra.streams.sentinel import SentinelPipeline, blocking_client
from infra.streams.wire import Confirmation
from schemas.errors import StreamUnavailable

ADDRESS_FILE = "run/log.url"


def log_url(log: LogSettings, *, home: Path) -> str:
    """The server's address; raises StreamUnavailable when the embedded server is not running."""
    if log.url != EMBEDDED:
        return log.url
    try:
        return (home / ADDRESS_FILE).read_text().strip()
    except OSError as error:
        raise StreamUnavailable("the embedded log is not running: start it with `hooklake up`, or set log.url") from error


def open_pipeline(log: LogSettings, *, home: Path, wait_ms: int = 0, generations: Iterator[int] | None = None) -> Pipeline:
    """An asyncio connection that is made when it is first used; `wait_ms` is how long its commands may block.

    `generations` numbers its connections, together with those of whoever shares it.
    """
    timeout_ms, confirmation = log.timeout_ms + wait_ms, confirmation_of(log)
    if is_cluster(log.url):
        return ClusterPipeline(log.url, timeout_ms=timeout_ms, generations=generations, confirmation=confirmation)
    if is_sentinel(log.url):
        return SentinelPipeline(log.url, timeout_ms=timeout_ms, generations=generations, confirmation=confirmation)
    return ServerPipeline(lambda: log_url(log, home=home), timeout_ms=timeout_ms, generations=generations, confirmation=confirmation)


def confirmation_of(log: LogSettings) -> Confirmation | None:
    """What the settings demand of replicas. An append may have to wait for the word on the write before its own, and both fit."""
    return Confirmation(log.replicas, log.timeout_ms // 3) if log.durability == "replicated" else None


def open_blocking(log: LogSettings, *, home: Path) -> redis.Redis:
    """A blocking client without automatic retries: a repeated XADD or XREADGROUP is not the same command.

    That of a cluster asks where the slots are at once, so that this raises StreamUnavailable.
    """
    url = log_url(log, home=home)
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": log.timeout_ms / 1000,
        "socket_connect_timeout": log.timeout_ms / 1000,
        "retry": RedisRetry(NoBackoff(), 0),
        "health_check_interval": 0,
    }
    if is_sentinel(url):
        return blocking_client(url, timeout_ms=log.timeout_ms, options=options)
    if not is_cluster(url):
        return redis.Redis.from_url(url, **options)
    first, *others = seed_nodes(url)
    with translated():
        client = RedisCluster.from_url(node_address(url, node=first), startup_nodes=[_cluster_node(node) for node in others], **options)
    # It has all commands that we use, each of which finds the node of its key; only its class is no subclass.
    return cast(redis.Redis, client)


def _cluster_node(node: str) -> ClusterNode:
    host, _, port = node.rpartition(":")
    return ClusterNode(host.strip("[]"), int(port))  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Every redis-py error leaves as StreamUnavailable: whatever the log says, the sender did nothing wrong."""
    try:
        yield
    except (redis.RedisError, RedisClusterException) as error:  # the latter is none of the former
        raise StreamUnavailable(f"the log answered {type(error).__name__}: {error}") from error
    except OSError as error:
        raise StreamUnavailable(f"the log cannot be reached: {error}") from error
