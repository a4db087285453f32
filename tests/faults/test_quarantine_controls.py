"""The quarantine without its protections: a second decision is made, a flood is kept whole, and so are secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ingest.quarantine
from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.quarantine import QuarantinedRequests
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.sources import Source
from tests.contracts import test_quarantine as quarantine
from tests.contracts.test_quarantine import requests as requests
from tests.faults.breaking import break_script
from tests.ingest import test_quarantine as receiving
from tests.ingest.conftest import telemetry as telemetry
from tests.ingest.test_quarantine import source as source
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream


@pytest.mark.control("QUARANTINE")
async def test_without_its_state_a_request_is_decided_about_twice(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, requests: QuarantinedRequests, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "decide_quarantined", ("if before then", "if false then"))

    with pytest.raises(AssertionError, match="already"):
        await quarantine.test_at_most_one_decision_is_made(stream, requests, keys, client)


@pytest.mark.control("QUARANTINE")
async def test_without_a_word_before_the_append_a_request_is_released_and_discarded(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, requests: QuarantinedRequests, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "begin_release", ("redis.call('HSET', KEYS[2], 'releasing:' .. ARGV[1], ARGV[2])", ""))

    with pytest.raises(AssertionError, match="releasing"):
        await quarantine.test_what_is_about_to_be_appended_is_not_discarded_and_what_was_discarded_not_appended(
            stream, requests, keys, client
        )


@pytest.mark.control("QUARANTINE")
async def test_without_its_cap_a_flood_is_kept_whole(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, requests: QuarantinedRequests, keys: Keys, client: Any
) -> None:
    break_script(monkeypatch, "quarantine", ("if open >= tonumber(ARGV[3]) or", "if"))

    with pytest.raises(AssertionError, match="60"):
        await quarantine.test_a_source_has_no_more_than_its_cap_and_what_is_dropped_is_counted(stream, requests, keys, client)


@pytest.mark.control("QUARANTINE")
async def test_without_a_look_at_names_secrets_reach_the_log(
    monkeypatch: pytest.MonkeyPatch, log: LogSettings, home: Path, telemetry: Telemetry, source: Source
) -> None:
    monkeypatch.setattr(ingest.quarantine, "SECRET_NAME", re.compile(r"(?!)"))

    with pytest.raises(AssertionError, match="s3cr3t"):
        await receiving.test_no_secret_of_a_header_reaches_the_log(log, home, telemetry, source)
