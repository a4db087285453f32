"""Owns the way to the log server: its address, its clients, and the translation of every redis-py error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry as RedisRetry

from infra.log_address import EMBEDDED
from infra.settings import LogSettings
from infra.streams.pipelining import Pipeline
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


def open_pipeline(log: LogSettings, *, home: Path, wait_ms: int = 0) -> Pipeline:
    """An asyncio connection that is made when it is first used; `wait_ms` is how long its commands may block."""
    return Pipeline(lambda: log_url(log, home=home), timeout_ms=log.timeout_ms + wait_ms)


def open_blocking(log: LogSettings, *, home: Path) -> redis.Redis:
    """A blocking client without automatic retries: a repeated XADD or XREADGROUP is not the same command."""
    timeout_s = log.timeout_ms / 1000
    return redis.Redis.from_url(
        log_url(log, home=home),
        protocol=2,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=RedisRetry(NoBackoff(), 0),
        health_check_interval=0,
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Every redis-py error leaves as StreamUnavailable: whatever the log says, the sender did nothing wrong."""
    try:
        yield
    except redis.RedisError as error:
        raise StreamUnavailable(f"the log answered {type(error).__name__}: {error}") from error
    except OSError as error:
        raise StreamUnavailable(f"the log cannot be reached: {error}") from error
