"""Settings that were found fit stay so with all that they refer to, whatever becomes of the files, until SIGHUP finds others fit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra.setting_files import FilesKept
from infra.settings import FILE_NAME, LogSettings, load_settings
from ingest.crew import find_fit
from ingest.sources import Sources
from schemas.errors import ConfigError
from tests.ingest.receivers import (
    GITHUB_SECRET,
    PUSH,
    SOURCES,
    RunningReceiver,
    post,
    signed_headers,
    start_receiver,
    wait_until,
    write_home,
)

NEW_SECRET = b"the secret that replaces the first"
SCHEMA = {"required": ["ref"]}


class Lone:
    """A parent with one receiver, whose only source has one secret and a schema."""

    def __init__(self, home: Path, log: LogSettings) -> None:
        source = {**SOURCES["github"], "secrets": ["file:secrets/github"], "schemas": {"*": "file:any.json"}, "on_mismatch": "refuse"}
        home.mkdir(exist_ok=True)
        (home / "any.json").write_text(json.dumps(SCHEMA))
        self.home = write_home(home, log=log, tenants={"demo": {"sources": {"github": source}}})
        self.running: RunningReceiver = start_receiver(self.home)
        self.wait_for("is ready", times=1)

    @property
    def secret(self) -> Path:
        return self.home / "secrets" / "github"

    @property
    def pid(self) -> int:
        return int(self.running.said("receiver started")[-1]["pid"])

    def times(self, words: str) -> int:
        return sum(words in line["said"] for line in self.running.said("receivers"))

    def wait_for(self, words: str, *, times: int) -> None:
        wait_until(lambda: self.times(words) >= times, what=f"{words}, for the {times}th time: {self.running.said('receivers')}")

    def kill(self) -> None:
        """Returns when the next receiver is ready."""
        ready = self.times("is ready")
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for("is ready", times=ready + 1)

    def reload(self, *, until: str) -> None:
        before = self.times(until)
        self.running.process.send_signal(signal.SIGHUP)
        self.wait_for(until, times=before + 1)

    def statuses(self, *, body: bytes = PUSH) -> list[int]:
        """With the old secret, and with the new one."""
        both = (GITHUB_SECRET, NEW_SECRET)
        return [post(self.running.port, body=body, headers=signed_headers(body, secret=secret)).status for secret in both]


@pytest.fixture
def lone(receiver_log: LogSettings, tmp_path: Path) -> Iterator[Lone]:
    started = Lone(tmp_path / "home", receiver_log)
    yield started
    assert started.running.stop() == 0


def spoil_by_mode(lone: Lone) -> None:
    lone.secret.chmod(0o644)


def remove(lone: Lone) -> None:
    lone.secret.unlink()


def shorten(lone: Lone) -> None:
    lone.secret.write_bytes(b"short")


@pytest.mark.parametrize("spoil", [spoil_by_mode, remove, shorten])
def test_a_receiver_that_dies_after_a_secret_was_refused_comes_back_with_the_old_one(lone: Lone, spoil: Callable[[Lone], None]) -> None:
    spoil(lone)
    lone.reload(until="the old ones stay")
    lone.kill()

    assert lone.statuses() == [202, 401]
    assert lone.times("exited with") == 0


def test_a_secret_that_was_edited_counts_from_sighup_on_and_not_from_a_crash(lone: Lone) -> None:
    lone.secret.write_bytes(NEW_SECRET)
    lone.kill()
    after_the_crash = lone.statuses()
    lone.reload(until="new settings are in use")
    after_sighup = lone.statuses()
    lone.kill()

    assert (after_the_crash, after_sighup, lone.statuses()) == ([202, 401], [401, 202], [401, 202])


def test_a_schema_that_was_edited_counts_from_sighup_on_and_not_from_a_crash(lone: Lone) -> None:
    (lone.home / "any.json").write_text(json.dumps(False))
    lone.kill()
    after_the_crash = lone.statuses(body=b'{"ref":""}'), lone.statuses(body=b"{}")
    lone.reload(until="new settings are in use")

    assert after_the_crash == ([202, 401], [422, 401])
    assert lone.statuses(body=b'{"ref":""}') == [422, 401]


def test_a_kept_secret_is_in_memory_only(lone: Lone) -> None:
    lone.kill()

    processes = [Path(f"/proc/{pid}") for pid in (lone.running.process.pid, lone.pid)]
    seen = [(process / name).read_bytes() for process in processes for name in ("cmdline", "environ")]
    on_disk = [path.read_bytes() for path in lone.home.rglob("*") if path.is_file() and path != lone.secret]
    assert [text for text in (*seen, *on_disk, repr(lone.running.lines).encode()) if GITHUB_SECRET in text] == []


def test_a_child_finds_everything_that_the_parent_looked_at_and_no_other_file(home: Path, receiver_log: LogSettings) -> None:
    token = home / "token"
    token.touch(mode=0o600)
    token.write_bytes(b"a verify token")
    meta = {"scheme": "meta", "secrets": ["file:secrets/github"], "verify_token": "file:token"}
    write_home(home, log=receiver_log, tenants={"demo": {"sources": {**SOURCES, "meta": meta}}})
    found = find_fit(home)
    kept = FilesKept.take(found.descriptor)
    for path in (home / FILE_NAME, token, *(home / "secrets").iterdir()):
        path.unlink()

    sources = Sources.from_settings(load_settings(home, files=kept))

    assert sources.find("demo", source="meta").answering.verify_token == b"a verify token"
    assert [key.key_id for key in sources.find("demo", source="github").secrets] == [
        key.key_id for key in Sources.from_settings(found.settings).find("demo", source="github").secrets
    ]


def test_a_reference_that_was_not_kept_is_refused_though_its_file_is_there(home: Path, receiver_log: LogSettings) -> None:
    write_home(home, log=receiver_log)
    kept = FilesKept.take(find_fit(home).descriptor)
    secret = home / "secrets" / "generic"
    without = replace(kept, by_path={path: file for path, file in kept.by_path.items() if path != secret})

    with pytest.raises(ConfigError, match=r"secrets/generic is not among the files that were kept"):
        Sources.from_settings(load_settings(home, files=without))
    assert secret.exists()
