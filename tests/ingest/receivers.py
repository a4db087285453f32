"""Owns the receivers that tests start: the real `python -m ingest`, on a free port, with a home of its own."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from infra.clock import Clock
from infra.settings import LogSettings, environment_with
from ingest.headers import Headers
from ingest.keys import prepare
from ingest.request import Request
from ingest.schemes import GITHUB
from ingest.signatures import sign

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20.0
GITHUB_SECRET = b"It's a Secret to Everybody"
OTHER_SECRET = b"another secret of the same source"
GENERIC_SECRET = b"generic-secret-0123456789"
PATH = "/hooks/demo/github"
PUSH = b'{"ref":"refs/heads/main","repository":{"full_name":"octo/hello"}}'

SOURCES: dict[str, Any] = {
    "github": {"scheme": "github", "secrets": ["file:secrets/github", "file:secrets/other"], "max_body_bytes": 200_000},
    "billing": {
        "scheme": "generic",
        "secrets": ["file:secrets/generic"],
        "header": "X-Signature",
        "encoding": "base64",
        "delivery_id_header": "X-Delivery",
        "event_type_header": "X-Type",
        "repository": "customer.id",
        "priority": "urgent",
    },
}

_numbers = itertools.count()


def fresh_prefix() -> str:
    return f"i{os.getpid()}-{next(_numbers)}:"


def write_home(home: Path, *, log: LogSettings, **sections: Any) -> Path:
    """A home with a settings file and three secrets; `sections` replaces whole sections."""
    (home / "secrets").mkdir(parents=True, exist_ok=True)
    for name, value in (("github", GITHUB_SECRET), ("other", OTHER_SECRET), ("generic", GENERIC_SECRET)):
        path = home / "secrets" / name
        path.touch(mode=0o600)
        path.write_bytes(value)
    content = {
        "log": log.model_dump(),
        "tenants": {"demo": {"sources": SOURCES}},
        "ingest": {"port": 0, "ops_port": 0},
        **sections,
    }
    (home / "hooklake.yaml").write_text(yaml.safe_dump(content))
    return home


@dataclass(slots=True)
class RunningReceiver:
    """A receiver process and what it has said so far."""

    process: subprocess.Popen[bytes]
    lines: list[dict[str, Any]]
    port: int
    ops_port: int

    def stop(self) -> int:
        """SIGTERM, then its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=DEADLINE_S)

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("event") == event]


def start_receiver(
    home: Path, *arguments: str, pass_fds: tuple[int, ...] = (), module: str = "ingest", preload: Path | None = None
) -> RunningReceiver:
    """Returns when it listens; fails with what it said when it ends before."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment_with({"HOOKLAKE_HOME": str(home), **({"LD_PRELOAD": str(preload)} if preload else {})}),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        pass_fds=pass_fds,
    )
    assert process.stderr is not None
    lines: list[dict[str, Any]] = []
    listening: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_collect, args=(process.stderr, lines, listening), daemon=True).start()
    try:
        first = listening.get(timeout=DEADLINE_S)
    except queue.Empty:
        process.kill()
        raise
    assert first is not None, f"the receiver ended: {lines}"
    return RunningReceiver(process, lines, first["port"], first["ops_port"])


def _collect(stderr: IO[bytes], lines: list[dict[str, Any]], listening: queue.Queue[dict[str, Any] | None]) -> None:
    with stderr:
        for raw in stderr:
            try:
                line = json.loads(raw)
            except ValueError:
                line = {"event": "not JSON", "text": raw.decode(errors="replace")}
            lines.append(line)
            if line.get("event") == "receiver listening":
                listening.put(line)
    listening.put(None)


def signed_headers(body: bytes, *, secret: bytes = GITHUB_SECRET, **changes: str) -> dict[str, str]:
    """What GitHub would send with this body; `changes` replaces headers, with `_` for `-`."""
    key = prepare(GITHUB, secret=secret, at="secret")
    signed = sign(GITHUB, request=Request(Headers([]), body), secret=key, now=Clock().now())
    return {
        "content-type": "application/json",
        "x-github-event": "push",
        "x-github-delivery": str(uuid.uuid4()),
        **signed.headers,
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class WholeConnection(http.client.HTTPConnection):
    """Sends head and body together, as proxies and most senders do; the library sends one after the other."""

    def connect(self) -> None:
        super().connect()
        self._unsent: list[bytes] = []

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self._unsent.append(bytes(data))

    def getresponse(self) -> http.client.HTTPResponse:
        super().send(b"".join(self._unsent))
        self._unsent.clear()
        return super().getresponse()


def post(port: int, *, body: bytes, headers: dict[str, str], path: str = PATH, method: str = "POST", is_whole: bool = True) -> Answer:
    """One that is whole takes the receiver's short way, if it can; one whose body follows its head takes the long one."""
    connection = (WholeConnection if is_whole else http.client.HTTPConnection)("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def post_push(port: int, *, body: bytes = PUSH, **changes: str) -> Answer:
    return post(port, body=body, headers=signed_headers(body, secret=GITHUB_SECRET, **changes))


def wait_until(condition: Callable[[], bool], *, what: str, deadline_s: float = DEADLINE_S) -> None:
    """Asks again and again; fails with `what` when it does not become true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"did not happen within {deadline_s} s: {what}"
        time.sleep(0.02)
