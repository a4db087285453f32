"""One archive at a time: the lease refuses a second one, outlives a short absence of the log, and is left at once at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.archive_lease import ArchiveLease
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from schemas.errors import NotTheArchive


def a_lease(log: LogSettings, *, home: Path, lease_ms: int = 8000) -> ArchiveLease:
    return ArchiveLease(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards), lease_ms=lease_ms)


def test_a_second_archive_is_refused_and_told_who_holds_the_lease(log: LogSettings, home: Path) -> None:
    with a_lease(log, home=home) as first:
        second = a_lease(log, home=home)

        with pytest.raises(NotTheArchive, match=first.name):
            second.take(patience_s=0.1)

        first.check()
        second.end()


def test_the_next_one_begins_at_once_when_the_first_has_ended(log: LogSettings, home: Path) -> None:
    a_lease(log, home=home).__enter__().end()

    with a_lease(log, home=home) as second:
        second.check()


def test_one_that_died_is_waited_for(log: LogSettings, home: Path) -> None:
    died = a_lease(log, home=home, lease_ms=300)
    assert died._hold()

    with a_lease(log, home=home) as next_one:
        next_one.check()


def test_one_that_hung_and_was_replaced_is_told_so_and_one_that_was_not_goes_on(log: LogSettings, home: Path) -> None:
    hung = a_lease(log, home=home, lease_ms=100)
    assert hung._hold()
    time.sleep(0.2)
    hung.check()  # nobody took it meanwhile
    time.sleep(0.2)

    with a_lease(log, home=home), pytest.raises(NotTheArchive):
        hung.check()


def test_the_lease_is_renewed_while_it_is_held(
    log: LogSettings, home: Path, client: Any, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.streams.archive_lease.ASK_EVERY_S", 0.05)
    with a_lease(log, home=home, lease_ms=400) as lease:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            assert client.get(keys.lease(0, "archive")).decode() == lease.name
            time.sleep(0.05)
