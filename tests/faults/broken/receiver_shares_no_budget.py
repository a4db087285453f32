"""The receiver that lets bodies on their way hold all that it may hold: who sends some of them slowly keeps everybody out.

Run as `python -m tests.faults.broken.receiver_shares_no_budget` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from ingest.arriving import Arriving
from ingest.child import cli


def count_nothing(*_: object, **__: object) -> None:
    return


if __name__ == "__main__":
    Arriving.grow = count_nothing  # type: ignore[method-assign]
    run(cli)
