"""Owns taking one protection out of the log's own code: a Lua file with a line changed, in this process.

A control that runs a contract uses `break_script`, for as long as its test runs; one that is a service of its own, in `broken/`, uses
`break_script_for_good` before it starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from infra.streams import pipelining, scripts
from infra.streams.scripts import Script

Chooser = Callable[[str], Script]


def break_script(monkeypatch: pytest.MonkeyPatch, name: str, *changes: tuple[str, str]) -> None:
    """From now on, and until the test ends, both clients run the broken one."""
    chosen = choosing(name, *changes)
    for module in (pipelining, scripts):
        monkeypatch.setattr(module, "script", chosen)


def break_script_for_good(name: str, *changes: tuple[str, str]) -> None:
    pipelining.script = scripts.script = choosing(name, *changes)  # type: ignore[assignment, attr-defined]


def choosing(name: str, *changes: tuple[str, str]) -> Chooser:
    """What both clients choose Lua files by: this one has each text replaced by another, all others are as they were."""
    really = scripts.script
    text = really(name).text
    for old, new in changes:
        assert text.count(old) == 1, f"{name}.lua has not exactly one {old!r} any more"
        text = text.replace(old, new)
    # Another digest than the real one's, so that the server cannot mistake one for the other.
    broken = replace(really(name), text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
    return lambda wanted: broken if wanted == name else really(wanted)
