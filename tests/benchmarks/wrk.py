"""Owns loading a receiver with wrk: signed GitHub requests as fast as they are answered, each with a delivery id of its own."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from ingest.samples import sample
from ingest.schemes import SCHEMES
from tests.benchmarks.rates import CannotMeasure

BODY_BYTES = 6_500
CONNECTIONS = 64
PATH = "/hooks/bench/source-0"
# GitHub signs the body only, so one signature serves for every delivery id.
SCRIPT = """
local number = 0
wrk.method = "POST"
wrk.body = [==[%(body)s]==]
%(headers)s
request = function()
  number = number + 1
  wrk.headers["X-GitHub-Delivery"] = "%(run)s-" .. number
  return wrk.format()
end
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('\\n{"requests": %%d, "duration_us": %%d, "failed": %%d}\\n', summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw."""

    requests: int
    duration_us: int
    failed: int

    @property
    def per_second(self) -> float:
        return self.requests / self.duration_us * 1e6


def body_of(size_bytes: int = BODY_BYTES) -> bytes:
    """A push as GitHub sends it, brought to a size by its message."""
    content = orjson.loads(sample(SCHEMES["github"], event_type="push", number=1))
    content["padding"] = ""
    content["padding"] = "x" * max(0, size_bytes - len(orjson.dumps(content)))
    return orjson.dumps(content)


def headers_of(body: bytes, *, secret: bytes) -> dict[str, str]:
    signature = hmac.new(secret, body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/bench",
        "X-GitHub-Event": "push",
        "X-GitHub-Hook-ID": "292430182",
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def load(port: int, *, seconds: float, secret: bytes, run: str, folder: Path, body_bytes: int = BODY_BYTES) -> Load:
    """Raises CannotMeasure when wrk is missing, or anything was answered but 2xx."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise CannotMeasure("wrk is not installed, and `make bench` may not install it: `apt-get install wrk` (Debian and Ubuntu have it)")
    body = body_of(body_bytes)
    script = folder / f"{run}.lua"
    script.write_text(SCRIPT % {"body": body.decode(), "headers": _lua(headers_of(body, secret=secret)), "run": run})
    # By itself it calls a request failed that takes two seconds, which a slow contender's last ones do.
    load = ["-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--timeout", "20s"]
    command = [wrk, *load, "-s", str(script), f"http://127.0.0.1:{port}{PATH}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise CannotMeasure(f"wrk ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    found = Load(**json.loads(lines[-1]))
    if found.failed:
        raise CannotMeasure(f"{found.failed} of {found.requests} requests to {run} failed: {done.stdout.strip()[-500:]}")
    return found


def _lua(headers: Mapping[str, str]) -> str:
    return "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items())
