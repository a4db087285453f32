"""The worker that makes a group which vanished at the end of its streams: what it has not settled is skipped without a trace.

Run as `python -m tests.faults.broken.worker_begins_at_the_end` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from dataclasses import replace

from infra.running.cli import run
from infra.streams import pipelining, scripts
from infra.streams.scripts import Script
from processors.child import app

PLACE = "registered(KEYS[i]) or '0'"


def at_the_end(name: str) -> Script:
    chosen = scripts.script(name)
    if name != "declare":
        return chosen
    assert PLACE in chosen.text, "the declare script chooses the place elsewhere now"
    # Another digest than the real script's, so that the server cannot mistake one for the other.
    text = chosen.text.replace(PLACE, "'$'").replace("entries_read(create[3], create[5], KEYS[2])", "false")
    return replace(chosen, text=text, sha="0" * 40)


if __name__ == "__main__":
    pipelining.script = at_the_end  # type: ignore[assignment, attr-defined]
    run(app)
