"""The archive without its watch over Spark's JVM: when that is dead, it goes on for ever and can archive nothing.

Run as `python -m tests.faults.broken.archive_watches_no_driver` in the place of `python -m analytics`.
"""

from __future__ import annotations

from analytics import __main__ as process
from infra.running.cli import run


def watch_nothing(*_: object, **__: object) -> None:
    pass


if __name__ == "__main__":
    process.watch_driver = watch_nothing
    run(process.app)
