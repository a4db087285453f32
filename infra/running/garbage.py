"""Owns how often a process that works without end looks for garbage in cycles."""

from __future__ import annotations

import gc

AFTER = 20_000


def collect_garbage_seldom() -> None:
    """Events are many small objects that make no cycles. What is there at the start, the modules above all, stays for good."""
    gc.freeze()
    gc.set_threshold(AFTER, 20, 20)
