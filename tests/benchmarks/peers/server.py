"""Owns what the peers' processes are told: the server's address, and the body that every task carries."""

from __future__ import annotations

import os

VARIABLE = "BENCH_URL"
BODY = {"ref": "x" * 1789}
"""1,800 bytes of JSON, as our events have."""


def url() -> str:
    return os.environ[VARIABLE]
