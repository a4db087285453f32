"""Owns taking one protection out of the log's own code while a test runs: a Lua file with one line changed.

For controls that run a contract in this process; those of whole services are entry modules in `broken/`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from infra.streams import pipelining, scripts
from infra.streams.scripts import Script


def broken_script(name: str, *changes: tuple[str, str]) -> Script:
    """The Lua file with each text replaced by another; both clients tell it from the real one by its digest."""
    chosen = scripts.script(name)
    text = chosen.text
    for old, new in changes:
        assert text.count(old) == 1, f"{name}.lua has not exactly one {old!r} any more"
        text = text.replace(old, new)
    return replace(chosen, text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def break_script(monkeypatch: pytest.MonkeyPatch, name: str, *changes: tuple[str, str]) -> None:
    """From now on, and until the test ends, both clients run the broken one."""
    really, broken = scripts.script, broken_script(name, *changes)

    def chosen(wanted: str) -> Script:
        return broken if wanted == name else really(wanted)

    for module in (pipelining, scripts):
        monkeypatch.setattr(module, "script", chosen)
