"""How fast a tenant may send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings, load_settings
from infra.streams.keys import Keys
from ingest.rates import Rates
from ingest.settings import RateSettings
from ingest.sources import Sources
from schemas.errors import ConfigError, OverRate
from tests.infra.streams.raw import open_raw
from tests.ingest.receivers import (
    DEADLINE_S,
    PUSH,
    SOURCES,
    RunningReceiver,
    fresh_prefix,
    post,
    post_push,
    signed_headers,
    start_receiver,
    wait_until,
    write_home,
)

SOFT = RateSettings(per_second=10, burst=2)
HARD = RateSettings(per_second=1, burst=1, hard_per_second=2)


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_is_above_the_rate_is_excess_until_time_has_passed() -> None:
    time = Time()
    rates = Rates(time)

    assert [rates.is_excess("a", settings=SOFT) for _ in range(4)] == [False, False, True, True]
    time.now += 0.1
    assert [rates.is_excess("a", settings=SOFT) for _ in range(2)] == [False, True]


def test_a_bucket_holds_no_more_than_its_burst() -> None:
    time = Time()
    rates = Rates(time)
    rates.is_excess("a", settings=SOFT)

    time.now += 3600

    assert [rates.is_excess("a", settings=SOFT) for _ in range(3)] == [False, False, True]


def test_tenants_do_not_share_their_rates() -> None:
    rates = Rates(Time())
    while not rates.is_excess("a", settings=SOFT):
        pass

    assert not rates.is_excess("b", settings=SOFT)


def test_above_the_hard_rate_it_is_refused_and_told_when_to_come_again() -> None:
    time = Time()
    rates = Rates(time)
    assert [rates.is_excess("a", settings=HARD) for _ in range(2)] == [False, True]

    with pytest.raises(OverRate, match="2 requests per second") as refused:
        rates.is_excess("a", settings=HARD)
    with pytest.raises(OverRate):
        rates.refuse_above_hard("a", settings=HARD)
    time.now += refused.value.retry_after_s

    rates.refuse_above_hard("a", settings=HARD)
    rates.is_excess("a", settings=HARD)


def test_a_look_at_the_hard_rate_costs_nothing() -> None:
    rates = Rates(Time())

    for _ in range(10):
        rates.refuse_above_hard("a", settings=HARD)

    assert not rates.is_excess("a", settings=HARD)


def test_changed_settings_begin_anew() -> None:
    rates = Rates(Time())
    while not rates.is_excess("a", settings=SOFT):
        pass

    assert not rates.is_excess("a", settings=RateSettings(per_second=11, burst=2))


def test_a_hard_rate_below_the_rate_is_refused_at_start(home: Path, log: LogSettings) -> None:
    write_home(home, log=log, tenants={"demo": {"rate": {"per_second": 10, "hard_per_second": 5}, "sources": SOURCES}})

    with pytest.raises(ConfigError, match=r"tenants\.demo\.rate.*hard_per_second=5 is below per_second=10"):
        Sources.from_settings(load_settings(home))


@pytest.fixture(scope="module")
def limited_log(log_server: EmbeddedServer) -> LogSettings:
    return LogSettings(url=log_server.url, prefix=fresh_prefix())


@pytest.fixture(scope="module")
def limited_home(tmp_path_factory: pytest.TempPathFactory, limited_log: LogSettings) -> Path:
    # So slow that the test's own time makes no difference: two within the rate, two above, then nothing more.
    tenants = {
        "demo": {"rate": {"per_second": 0.001, "burst": 2, "hard_per_second": 0.001}, "sources": SOURCES},
        "calm": {"rate": {"per_second": 0.001, "burst": 2}, "sources": SOURCES},
    }
    return write_home(tmp_path_factory.mktemp("limited"), log=limited_log, tenants=tenants)


@pytest.fixture(scope="module")
def limited(limited_home: Path) -> Iterator[RunningReceiver]:
    running = start_receiver(limited_home)
    wait_until(lambda: post(running.port, body=b"", headers={}, path="/readyz", method="GET").status == 200, what="the receiver is ready")
    yield running
    running.stop()
    running.process.wait(timeout=DEADLINE_S)


def streams_of(log: LogSettings, *, home: Path, tenant: str) -> dict[str, int]:
    """How many events of the tenant each kind of stream has."""
    keys, client = Keys(log.prefix, log.shards), open_raw(log, home=home)
    counts: dict[str, int] = {}
    for shard in keys.all_shards():
        for name in ("default", "overflow"):
            entries = client.xrange(keys.events(shard, name))
            found = [fields for _, fields in entries if fields[b"tenant_id"].decode() == tenant]
            counts[name] = counts.get(name, 0) + len(found)
    client.close()
    return counts


def test_the_excess_goes_to_the_overflow_stream(limited: RunningReceiver, limited_log: LogSettings, limited_home: Path) -> None:
    statuses = [post(limited.port, body=PUSH, headers=signed_headers(PUSH), path="/hooks/calm/github").status for _ in range(5)]

    assert statuses == [202] * 5
    assert streams_of(limited_log, home=limited_home, tenant="calm") == {"default": 2, "overflow": 3}


def test_above_the_hard_rate_the_answer_is_429_for_that_tenant_alone(limited: RunningReceiver) -> None:
    forged = [post_push(limited.port, x_hub_signature_256="sha256=" + "00" * 32).status for _ in range(5)]
    statuses = [post_push(limited.port).status for _ in range(3)]
    refused = post_push(limited.port)
    other = post(limited.port, body=PUSH, headers=signed_headers(PUSH), path="/hooks/calm/github")

    assert (forged, statuses) == ([401] * 5, [202, 202, 429])
    assert (refused.code, int(refused.headers["retry-after"]) >= 1) == ("over_rate", True)
    assert other.status == 202
