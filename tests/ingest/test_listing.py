"""`python -m ingest.listing`, also known as `hooklake sources`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.settings import LogSettings, environment_with
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from ingest.keys import key_id_of
from tests.ingest.receivers import GITHUB_SECRET, OTHER_SECRET, ROOT, SOURCES, write_home

OPEN = {"scheme": "generic", "unsigned": True}


def listed(home: Path, *arguments: str, module: str = "ingest.listing", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment_with({"HOOKLAKE_HOME": str(home), **environment}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def described(home: Path) -> Path:
    return write_home(home, log=LogSettings(), tenants={"demo": {"sources": {**SOURCES, "open": OPEN}}})


def test_every_source_is_listed_for_machines(described: Path) -> None:
    lines = json.loads(listed(described, "--json").stdout)

    assert [(line["tenant"], line["source"], line["scheme"], line["secrets"], line["unsigned"]) for line in lines] == [
        ("demo", "billing", "generic", 1, False),
        ("demo", "github", "github", 2, False),
        ("demo", "open", "generic", 0, True),
    ]
    assert lines[1]["key_ids"] == [key_id_of(GITHUB_SECRET), key_id_of(OTHER_SECRET)]
    assert lines[1]["confirmed"] is True
    assert lines[1]["path"] == "/hooks/demo/github"


def test_an_unsigned_source_is_red_and_no_secret_is_shown(described: Path) -> None:
    ended = listed(described, FORCE_COLOR="1")

    (row,) = [line for line in ended.stdout.splitlines() if "/hooks/demo/open" in line]
    assert "\x1b[1;31munsigned: anybody may send" in row
    assert "Everybody" not in ended.stdout
    assert "2 secrets" in ended.stdout


def test_a_wrong_setting_is_one_sentence(home: Path) -> None:
    write_home(home, log=LogSettings(), tenants={"demo": {"sources": {"open": {"scheme": "github"}}}})

    ended = listed(home)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "`unsigned: true`" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_window_that_the_receiver_refuses_is_refused_in_the_same_words(home: Path) -> None:
    write_home(home, log=LogSettings(), tenants={"demo": {"sources": {"github": {**SOURCES["github"], "window": "200h"}}}})

    ended, receiver = listed(home), listed(home, module="ingest")

    assert (ended.returncode, receiver.returncode, ended.stdout) == (2, 2, "")
    assert ended.stderr == receiver.stderr
    assert "tenants.demo.sources.github.window=200h is longer than log.window=80h" in ended.stderr


def test_it_says_when_each_secret_was_used_last(home: Path, log: LogSettings) -> None:
    write_home(home, log=log, tenants={"demo": {"sources": SOURCES}})
    with open_blocking(log, home=home) as client:
        client.hset(Keys(log.prefix, log.shards).ledger(0), f"used:demo:github:{key_id_of(OTHER_SECRET)}", 1_768_478_460_000)

    (_, github), shown = json.loads(listed(home, "--json").stdout), listed(home, COLUMNS="200").stdout

    assert github["last_used"] == {key_id_of(GITHUB_SECRET): None, key_id_of(OTHER_SECRET): "2026-01-15T12:01:00+00:00"}
    assert f"{key_id_of(GITHUB_SECRET)} (not used yet)" in shown
    assert f"{key_id_of(OTHER_SECRET)} (used 2026-01-15 12:01 UTC)" in shown


def test_without_a_log_the_sources_are_listed_all_the_same(home: Path) -> None:
    write_home(home, log=LogSettings(url="redis://127.0.0.1:1/0"), tenants={"demo": {"sources": SOURCES}})

    ended = listed(home)

    assert (ended.returncode, "/hooks/demo/github" in ended.stdout) == (0, True)
    assert "nobody knows when secrets were used last" in ended.stderr
