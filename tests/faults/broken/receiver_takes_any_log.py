"""The receiver that does not look what its log does with what it is given: one that evicts keys is as good as any.

Run as `python -m tests.faults.broken.receiver_takes_any_log` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.settings import LogSettings
from infra.streams import probe
from infra.streams.probe import ServerFacts
from ingest.child import cli


def nothing_is_wrong(facts: ServerFacts, *, log: LogSettings) -> str:
    return ""


if __name__ == "__main__":
    probe.why_unfit = nothing_is_wrong
    run(cli)
