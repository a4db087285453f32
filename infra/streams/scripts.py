"""Owns the Lua files: loads each once, runs it by its digest, and sends its text when the server has forgotten it.

A line `-- include NAME` in a script stands for the functions in `lua/include/NAME.lua`.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import redis

Argument = str | bytes | int


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua file; its head lists KEYS, ARGV and what it returns."""

    name: str
    text: str
    sha: str


@functools.cache
def script(name: str) -> Script:
    text = re.sub(r"^-- include (\w+)$", lambda found: _read(f"include/{found[1]}"), _read(name), flags=re.MULTILINE)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(name: str) -> str:
    return resources.files("infra.streams").joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


def run_blocking(client: redis.Redis, name: str, *, keys: Sequence[str], args: Sequence[Argument]) -> Any:
    """Runs a script through the blocking client; a SCRIPT FLUSH in between costs one more round trip."""
    chosen = script(name)
    try:
        return client.evalsha(chosen.sha, len(keys), *keys, *args)
    except redis.exceptions.NoScriptError:
        return client.eval(chosen.text, len(keys), *keys, *args)
