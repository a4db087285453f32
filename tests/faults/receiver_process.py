"""Owns running a receiver, real or broken, as a process over a log, and posting to it."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from infra.running.healthcheck import answers_ok
from tests.infra.running.processes import command_environment, until

BODY = b'{"repository": {"full_name": "octo/hello"}}'


@contextmanager
def receiver(module: str, *, home: Path, log_url: str, **settings: str) -> Iterator[str]:
    environment = command_environment(home, **{"LOG__URL": log_url, "LOG__TIMEOUT_MS": "500", **settings})
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
