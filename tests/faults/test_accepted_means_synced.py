"""A 202 is only sent for what is on the synced log. The control answers first, and what it accepted is gone."""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from infra.running.embedded import EmbeddedServer, free_port
from infra.running.healthcheck import answers_ok
from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.infra.running.processes import command_environment, until
from tests.infra.streams.raw import open_raw

REAL, BROKEN = "ingest", "tests.faults.broken.receiver_answers_first"
BODY = b'{"repository": {"full_name": "octo/hello"}}'


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A3", "B1")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("A3", "B1")),
    ],
)
def test_what_a_hanging_and_then_killed_log_never_confirmed_is_not_accepted(tmp_path: Path, module: str, is_faithful: bool) -> None:
    home, server = tmp_path / "home", EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    initialise(home)
    server.start()
    with receiver(module, home=home, log_url=server.url) as hook:
        assert post(hook, home=home, delivery="before").status_code == 202
        os.kill(server.pid, signal.SIGSTOP)

        answer = post(hook, home=home, delivery="while-it-hangs")

    server.kill()
    server.start()
    try:
        was_kept = answer.status_code != 202 or answer.json()["event_id"] in ids_on(LogSettings(url=server.url), home=home)
        assert was_kept is is_faithful
        assert answer.status_code == (503 if is_faithful else 202)
    finally:
        server.stop()


@contextmanager
def receiver(module: str, *, home: Path, log_url: str) -> Iterator[str]:
    environment = command_environment(home, LOG__URL=log_url, LOG__TIMEOUT_MS="500")
    process = subprocess.Popen([sys.executable, "-m", module], env=environment, stderr=subprocess.DEVNULL)
    try:
        port = int(environment["HOOKLAKE_INGEST__OPS_PORT"])
        until(lambda: process.poll() is None and answers_ok(port), what="the receiver is ready")
        yield f"http://127.0.0.1:{environment['HOOKLAKE_INGEST__PORT']}/hooks/demo/github"
    finally:
        process.kill()
        process.wait()


def post(hook: str, *, home: Path, delivery: str) -> httpx.Response:
    digest = hmac.new((home / "secrets" / "demo-github").read_bytes().strip(), BODY, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": delivery, "x-hub-signature-256": f"sha256={digest}"}
    return httpx.post(hook, content=BODY, headers={"content-type": "application/json", **headers}, timeout=30)


def ids_on(log: LogSettings, *, home: Path) -> set[str]:
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    found = {fields[b"id"].decode() for stream in streams for _, fields in client.xrange(stream)}
    client.close()
    return found
