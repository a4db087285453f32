"""Owns filling a peer's queue in the peer's own way: `python -m tests.benchmarks.peers.enqueue MODULE COUNT`."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).enqueue(int(sys.argv[2]))
