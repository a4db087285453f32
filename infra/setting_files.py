"""Owns the files that settings are made of, their own and those that they refer to: as they are now, or as a parent kept them.

A parent that has found settings fit hands all of it to its children, so that one that is started again does not depend on what
became of the files meanwhile. What it keeps has secrets in it: it is in memory only, in a nameless file that no other user can open.
"""

from __future__ import annotations

import json
import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SettingFile:
    """What was found at a path."""

    mode: int
    content: bytes = field(repr=False)


class Files(Protocol):
    """Where whoever needs a file of the settings gets it from."""

    def read(self, path: Path) -> SettingFile:
        """Raises OSError, or ConfigError where the file is not to be looked for."""


class FilesNow:
    """As they are on the disk."""

    def read(self, path: Path) -> SettingFile:
        with path.open("rb") as file:
            return SettingFile(stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read())


class FilesOnce:
    """As they were on the disk when they were first asked for; what is kept of them is what was looked at."""

    def __init__(self) -> None:
        self._found: dict[Path, SettingFile] = {}

    def read(self, path: Path) -> SettingFile:
        if path not in self._found:
            self._found[path] = FilesNow().read(path)
        return self._found[path]

    def keep(self, name: str) -> int:
        """The descriptor of a file in memory that holds them, for `FilesKept`; the caller closes it. Raises ConfigError."""
        written = {str(path): (file.mode, b64encode(file.content).decode()) for path, file in self._found.items()}
        try:
            with ExitStack() as stack:
                descriptor = os.memfd_create(name)
                stack.callback(os.close, descriptor)
                with os.fdopen(descriptor, "w", closefd=False) as kept:
                    json.dump(written, kept)
                stack.pop_all()
        except OSError as error:
            raise ConfigError(f"{name} cannot be kept in memory ({error.strerror}), so no child could be started with it") from error
        return descriptor


@dataclass(frozen=True, slots=True)
class FilesKept:
    """As a parent kept them. There are no others: a file that it did not look at is refused, whatever is on the disk."""

    by_path: Mapping[Path, SettingFile] = field(repr=False)

    @classmethod
    def take(cls, descriptor: int) -> FilesKept:
        """Closes the descriptor; raises ConfigError where it holds no such files."""
        try:
            # Opened anew, because the position in an inherited one is shared with every other child.
            kept = json.loads(Path(f"/proc/self/fd/{descriptor}").read_bytes())
            os.close(descriptor)
            return cls({Path(path): SettingFile(mode, b64decode(content)) for path, (mode, content) in kept.items()})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"descriptor {descriptor} holds no settings that a parent kept; nothing can be run without them") from error

    def read(self, path: Path) -> SettingFile:
        if path not in self.by_path:
            raise ConfigError(f"{path} is not among the files that were kept when the settings were found fit; send SIGHUP to read it")
        return self.by_path[path]
