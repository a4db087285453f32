"""Owns how a command asks the archive for what only the process that owns the tables may do: files under the home.

run/requests/<name>.asked      JSON: form, act, arguments, by, asked_ms; synced, and gone once it is answered
run/requests/<name>.begun      how often it was begun; so that one which kills the archive does so a few times only
run/requests/<name>.found      JSON: what an act has noted for its next beginning
run/requests/<name>.progress   JSON: doing, done, of; only told, and never needed
run/requests/<name>.answer     JSON: result, or error and exit_code; gone once its command has read it, else after a day

A request outlives whoever asked and whoever began it: the next archive carries it out from its beginning, so every act can be repeated.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from infra.running.cli import EXIT_CONFIG, EXIT_FAILED, EXIT_UNAVAILABLE
from infra.running.moments import operator_name
from infra.spools import sync_folder
from schemas.errors import ConfigError, HooklakeError, RequestFailed, Unavailable

FORM = 1
MOST_BEGINNINGS = 3
ANSWERS_KEPT_S = 86_400

Result = dict[str, Any]
Tell = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked for."""

    name: str
    act: str
    arguments: Mapping[str, Any]
    by: str
    asked_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the archive has come with a request."""

    doing: str
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one home; raises OSError where its disk fails."""

    home: Path

    @property
    def folder(self) -> Path:
        return self.home / "run" / "requests"

    def ask(self, act: str, *, arguments: Mapping[str, Any]) -> str:
        """Returns the request's name once it would survive a power cut."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        now_ms = int(time.time() * 1000)
        name = f"{now_ms:013}-{secrets.token_hex(4)}"
        asked = {"form": FORM, "act": act, "arguments": arguments, "by": operator_name(), "asked_ms": now_ms}
        self._write(f"{name}.asked", content=asked)
        return name

    def waiting(self) -> list[str]:
        """The names of those that nobody has answered, the oldest first. Costs one look at a directory."""
        try:
            return sorted(name.removesuffix(".asked") for name in os.listdir(self.folder) if name.endswith(".asked"))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> Request:
        """Raises ConfigError for what is no request of this release."""
        try:
            found = orjson.loads((self.folder / f"{name}.asked").read_bytes())
            if found["form"] != FORM:
                raise ValueError(f"form {found['form']!r}")
            return Request(name, found["act"], found["arguments"], found["by"], found["asked_ms"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"the request {name} is of no form that this release knows: ask again with the same release") from error

    def begin(self, name: str) -> None:
        """Counts the beginning; raises RequestFailed when it was begun too often without an end."""
        path = self.folder / f"{name}.begun"
        times = int(path.read_text()) if path.exists() else 0
        if times >= MOST_BEGINNINGS:
            raise RequestFailed(f"the archive died {times} times over the request {name}: see its log, then ask again")
        self._write(f"{name}.begun", content=times + 1)

    def put_off(self, name: str) -> None:
        """It could not be carried out just now, which is not its fault."""
        (self.folder / f"{name}.begun").unlink(missing_ok=True)

    def note(self, name: str, *, content: Mapping[str, Any]) -> None:
        """For the next beginning, should this one be killed; synced."""
        self._write(f"{name}.found", content=content)

    def noted(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads((self.folder / f"{name}.found").read_bytes())
        except FileNotFoundError:
            return None
        return found

    def tell(self, name: str, *, progress: Progress) -> None:
        beside = self.folder / f"{name}.progress.new"
        beside.write_bytes(orjson.dumps(progress))
        beside.replace(self.folder / f"{name}.progress")

    def progress(self, name: str) -> Progress | None:
        try:
            return Progress(**orjson.loads((self.folder / f"{name}.progress").read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def answer(self, name: str, *, content: Mapping[str, Any]) -> None:
        """The answer first: a request that is gone without one would be waited for in vain."""
        self._write(f"{name}.answer", content=content)
        for kind in ("asked", "begun", "found", "progress"):
            (self.folder / f"{name}.{kind}").unlink(missing_ok=True)
        sync_folder(self.folder)

    def take_answer(self, name: str) -> Result | None:
        """The result, or None while there is none; raises what the archive raised. It is gone after this."""
        try:
            found = orjson.loads((self.folder / f"{name}.answer").read_bytes())
        except FileNotFoundError:
            return None
        (self.folder / f"{name}.answer").unlink(missing_ok=True)
        if "error" in found:
            raise _raised(found["error"], exit_code=found["exit_code"])
        result: Result = found["result"]
        return result

    def withdraw(self, name: str) -> None:
        (self.folder / f"{name}.asked").unlink(missing_ok=True)

    def clear(self, *, now_s: float) -> None:
        """Removes answers that nobody came for."""
        for path in self.folder.glob("*.answer"):
            if now_s - path.stat().st_mtime > ANSWERS_KEPT_S:
                path.unlink(missing_ok=True)

    def _write(self, name: str, *, content: object) -> None:
        beside = self.folder / f"{name}.new"
        with beside.open("wb") as file:
            file.write(orjson.dumps(content))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.folder / name)
        sync_folder(self.folder)


def error_answer(error: HooklakeError) -> dict[str, object]:
    """What the one who asked is told, with the exit code that the error has everywhere."""
    code = EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_FAILED
    return {"error": str(error), "exit_code": code}


def _raised(sentence: str, *, exit_code: int) -> HooklakeError:
    kinds: dict[int, type[HooklakeError]] = {EXIT_CONFIG: ConfigError, EXIT_UNAVAILABLE: Unavailable}
    return kinds.get(exit_code, RequestFailed)(sentence)
