"""The worker without fencing: its settle script takes everybody for the owner of a delivery.

Run as `python -m tests.faults.broken.worker_settles_unchecked` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from dataclasses import replace

from infra.running.cli import run
from infra.streams import pipelining, scripts
from infra.streams.scripts import Script
from processors.child import app

CHECK = "owns[number] = owned(ARGV[i], ARGV[i + 1])"


def unchecked(name: str) -> Script:
    chosen = scripts.script(name)
    if name != "settle":
        return chosen
    assert CHECK in chosen.text, "the settle script checks its owner elsewhere now"
    # Another digest than the real script's, so that the server cannot mistake one for the other.
    text = chosen.text.replace(CHECK, "owns[number] = true")
    return replace(chosen, text=text, sha="0" * 40)


if __name__ == "__main__":
    pipelining.script = unchecked  # type: ignore[assignment, attr-defined]
    run(app)
