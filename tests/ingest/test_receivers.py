"""Several receivers on one socket: one that dies, one that makes way for another, and settings that change meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.running.embedded import EmbeddedServer
from infra.settings import FILE_NAME, LogSettings
from ingest.crew import find_fit
from schemas.errors import ConfigError
from tests.ingest.receivers import (
    GITHUB_SECRET,
    PATH,
    PUSH,
    SOURCES,
    RunningReceiver,
    post,
    post_push,
    signed_headers,
    start_receiver,
    wait_until,
    write_home,
)
from tests.ports import free_port

NEW_SECRET = b"the secret that replaces the first"


class Receivers:
    """A parent with two receivers, and what it has said since the last `reload`."""

    def __init__(self, home: Path, log: LogSettings) -> None:
        self.home = write_home(home, log=log, ingest={"port": 0, "ops_port": 0, "receivers": 2, "idle_timeout_ms": 10_000})
        self.running: RunningReceiver = start_receiver(self.home)
        wait_until(lambda: self.times_ready() == 2, what="both receivers are ready")

    @property
    def port(self) -> int:
        return self.running.port

    def pids(self) -> list[int]:
        """Of those that started and did not say that they stopped."""
        gone = {line["pid"] for line in self.running.said("receiver stopped")}
        return [line["pid"] for line in self.running.said("receiver started") if line["pid"] not in gone]

    def settled(self, count: int = 2) -> list[int]:
        """The same when those that were told to go have gone."""
        wait_until(lambda: len(self.pids()) == count, what=f"there are {count}")
        return self.pids()

    def times_ready(self) -> int:
        return sum("is ready" in sentence for sentence in self.said())

    def said(self) -> list[str]:
        return [line["said"] for line in self.running.said("receivers")]

    def write(self, **sections: Any) -> None:
        path = self.home / FILE_NAME
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **sections}))

    def write_source(self, **changes: Any) -> None:
        self.write(tenants={"demo": {"sources": {**SOURCES, "github": {**SOURCES["github"], **changes}}}})

    def reload(self, *, until: str = "new settings are in use") -> list[str]:
        """SIGHUP, then what it says up to the given words."""
        before = len(self.said())
        self.running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any(until in said for said in self.said()[before:]), what=until)
        return self.said()[before:]


@pytest.fixture(scope="module")
def receivers(receiver_log: LogSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    started = Receivers(tmp_path_factory.mktemp("receivers"), receiver_log)
    yield started
    assert started.running.stop() == 0


@pytest.fixture
def unfit_log(tmp_path: Path) -> Iterator[str]:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password", options={"maxmemory-policy": "allkeys-lru"})
    server.start()
    yield server.url
    server.stop()


def test_each_receiver_is_counted_by_itself(receivers: Receivers) -> None:
    assert [post_push(receivers.port).status for _ in range(4)] == [202] * 4

    page = post(receivers.running.ops_port, body=b"", headers={}, path="/metrics", method="GET").body
    assert {name for name in (b"receiver-0", b"receiver-1") if b'child="%b"' % name in page} == {b"receiver-0", b"receiver-1"}


def test_a_receiver_that_dies_is_started_anew(receivers: Receivers) -> None:
    victim, times_ready = receivers.pids()[0], receivers.times_ready()

    os.kill(victim, signal.SIGKILL)

    wait_until(lambda: receivers.times_ready() > times_ready, what="another one is ready")
    assert post_push(receivers.port).status == 202
    receivers.running.lines.append({"event": "receiver stopped", "pid": victim})  # It could not say so itself.
    assert any("died (signal 9)" in said for said in receivers.said())


def test_sighup_replaces_every_receiver_and_none_leaves_before_another_is_ready(receivers: Receivers) -> None:
    before = receivers.settled()

    said = receivers.reload()

    changes = [sentence for sentence in said if "is ready" in sentence or "is told to stop" in sentence]
    assert ["is ready" in sentence for sentence in changes] == [True, False, True, False]
    assert set(receivers.settled()).isdisjoint(before)
    assert post_push(receivers.port).status == 202


def test_an_idle_connection_is_left_to_its_next_request(receivers: Receivers) -> None:
    idle = [http.client.HTTPConnection("127.0.0.1", receivers.port, timeout=20) for _ in range(4)]
    for connection in idle:
        connection.request("GET", "/healthz")
        connection.getresponse().read()

    receivers.reload()
    answers = []
    for connection in idle:
        connection.request("POST", PATH, body=PUSH, headers=signed_headers(PUSH))
        response = connection.getresponse()
        response.read()
        answers.append((response.status, response.headers["connection"]))
        connection.close()

    assert answers == [(202, "close")] * 4


@pytest.mark.parametrize(
    ("sections", "setting"),
    [
        ({"tenants": {"demo": {"sources": {"github": {"scheme": "github", "secrets": ["file:secrets/missing"]}}}}}, "github.secrets[0]"),
        ({"ingest": {"max_in_fligt": 3}}, "ingest.max_in_fligt"),
        ({"log": {"url": "redis://127.0.0.1:1/0", "timeout_ms": -1}}, "log.timeout_ms"),
    ],
)
def test_settings_that_are_not_fit_change_nothing_and_are_named_once(receivers: Receivers, sections: dict[str, Any], setting: str) -> None:
    file = receivers.home / FILE_NAME
    fit, before = file.read_text(), receivers.settled()
    receivers.write(**sections)

    said = receivers.reload(until="the old ones stay")
    file.write_text(fit)

    remark = post(receivers.running.ops_port, body=b"", headers={}, path="/readyz", method="GET").body.decode()
    assert remark.startswith("ready\n")
    assert setting in remark
    assert [sentence for sentence in said if "the old ones stay" in sentence and setting in sentence] == said
    assert receivers.pids() == before
    assert post_push(receivers.port).status == 202


def test_receivers_that_cannot_live_under_the_new_settings_do_not_replace_those_that_do(receivers: Receivers, unfit_log: str) -> None:
    file = receivers.home / FILE_NAME
    fit, before = file.read_text(), receivers.settled()
    receivers.write(log={"url": unfit_log})

    receivers.reload(until="the old ones stay")
    file.write_text(fit)

    assert receivers.pids() == before
    assert post_push(receivers.port).status == 202


def test_settings_that_are_refused_for_their_log_leave_no_file_open(home: Path, unfit_log: str) -> None:
    write_home(home, log=LogSettings(url=unfit_log))

    with pytest.raises(ConfigError, match="maxmemory-policy"):
        find_fit(home)

    assert [name for name in open_files() if "hooklake.yaml" in name] == []


def open_files() -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # The one that listed them.
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


def test_more_and_fewer_receivers_come_with_the_settings(receivers: Receivers) -> None:
    ingest = yaml.safe_load((receivers.home / FILE_NAME).read_text())["ingest"]

    receivers.write(ingest={**ingest, "receivers": 3})
    receivers.reload()
    receivers.settled(3)
    receivers.write(ingest={**ingest, "receivers": 1, "port": 1})
    said = receivers.reload()

    receivers.settled(1)
    assert [sentence for sentence in said if sentence.startswith("ingest.port stays 0")] != []


def test_a_secret_is_rotated_without_a_failed_delivery(receivers: Receivers) -> None:
    new = receivers.home / "secrets" / "new"
    new.touch(mode=0o600)
    new.write_bytes(NEW_SECRET)

    def statuses(secret: bytes) -> set[int]:
        return {post(receivers.port, body=PUSH, headers=signed_headers(PUSH, secret=secret)).status for _ in range(10)}

    receivers.write_source(secrets=["file:secrets/new", "file:secrets/github"])
    receivers.reload()
    while_both_count = statuses(GITHUB_SECRET) | statuses(NEW_SECRET)
    receivers.write_source(secrets=["file:secrets/new"])
    receivers.reload()

    assert while_both_count == {202}
    assert (statuses(NEW_SECRET), statuses(GITHUB_SECRET)) == ({202}, {401})
