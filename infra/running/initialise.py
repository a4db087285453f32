"""Owns `hooklake init`: a commented settings file and fresh secrets for a new home; what exists is never touched."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from infra.running.cli import run
from infra.settings import FILE_NAME, home_directory
from schemas.errors import ConfigError

SECRETS = ("demo-github", "demo-generic")
TEMPLATE = """\
# hooklake's settings. Every setting has a default; an unknown one is refused, with the nearest known name.
# The environment overrides this file: HOOKLAKE_LOG__URL=... is log.url, and so on.
# Secrets are named here, never written here: `file:` below this folder (mode 0600), or `env:NAME`.

# The log: where an accepted event is stored before the sender gets its answer.
log:
  url: embedded             # a server that `hooklake up` starts; or redis://host:6379/0, rediss://..., redis+sentinel://...
  shards: 4                 # fixed at first start: another number is refused later
  durability: fsync         # accepted means fsynced; `replicated`: and on a replica; `relaxed` may lose the last seconds at a crash
  hard_cap: 80%             # of the server's memory: above it events are refused until there is room

# Who may send. Each source is reached at POST /hooks/<tenant>/<source>.
tenants:
  demo:
    sources:
      github:
        scheme: github      # checks X-Hub-Signature-256 over the raw body
        secrets: ["file:secrets/demo-github"]
      generic:
        scheme: generic     # any sender that signs with HMAC
        secrets: ["file:secrets/demo-generic"]
        header: X-Signature
        delivery_id_header: X-Delivery-Id
        event_type_header: X-Event-Type

# The receiver.
ingest:
  host: 127.0.0.1           # 0.0.0.0 to be reached from other machines
  port: 8080
  ops_port: 9101            # /metrics, /healthz, /readyz

# Who processes: each group sees every event once, through the processors of its module.
groups:
  example:
    module: processors.example
    ops_port: 9102

# How long a dead letter stays in the log after it was archived.
dead_letters:
  retention: 168h

# What is refused of configured sources is kept aside: `hooklake quarantine`.
quarantine:
  cap: 1000                 # of each source

# The archive: drains the log into Delta tables.
archive:
  path: lake                # below this folder
  interval_ms: 1000
  ops_port: 9103
  connect_port: 15002       # for notebooks and `hooklake query`, from this machine only; `run/connect` has the address with its token

# What the processes say about themselves; metrics are always on their ops ports.
telemetry:
  traces: "off"             # or file:traces.jsonl, or an OTLP/HTTP address
  log_level: info
"""

app = typer.Typer(add_completion=False)


@app.command()
def init(
    home: Annotated[Path | None, typer.Option(help="Where to write; HOOKLAKE_HOME or .hooklake when not given.")] = None,
) -> None:
    """Writes a commented settings file and fresh secrets; never overwrites."""
    home = (home or home_directory()).absolute()
    written = initialise(home)
    for path in written:
        print(f"wrote {path}")
    if not written:
        print(f"{home / FILE_NAME} and its secrets exist already; nothing was changed")


def initialise(home: Path) -> list[Path]:
    """Writes what is missing and returns it; raises ConfigError when the home cannot be written."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / "secrets").mkdir(mode=0o700, exist_ok=True)
        # Secrets first: a settings file without its secrets would not load after a crash in between.
        paths = [path for name in SECRETS if write_new(path := home / "secrets" / name, secrets.token_hex(32) + "\n")]
        if write_new(home / FILE_NAME, TEMPLATE):
            paths.append(home / FILE_NAME)
    except OSError as error:
        raise ConfigError(
            f"HOOKLAKE_HOME: {home} cannot be written ({error.strerror}), so there is no place for settings and data"
        ) from error
    return paths


def write_new(path: Path, content: str) -> bool:
    """Creates a file that only its owner can read, whole and synced; false, and nothing written, when it exists."""
    if path.exists():
        return False
    half_written = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(half_written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        # link fails when the name exists, rename would overwrite: of two that run at once, the first wins.
        os.link(half_written, path)
    except FileExistsError:
        return False
    finally:
        half_written.unlink()
    return True


if __name__ == "__main__":
    run(app)
