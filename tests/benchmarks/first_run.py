"""Measures what a newcomer waits for: `python -m tests.benchmarks.first_run` clones the committed tree into an empty folder,
sets it up, starts it, sends an event, queries its row, stops it, and starts it again; prints the table of the README."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.installation import ROOT, Installation


class Times:
    """The rows, in the order in which they were measured."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []

    @contextmanager
    def taken(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.rows.append((what, time.monotonic() - began))

    def table(self) -> str:
        return "| what | time |\n|---|---|\n" + "\n".join(f"| {what} | {seconds:.1f} s |" for what, seconds in self.rows)


def measure(folder: Path) -> Times:
    times, clone = Times(), folder / "hooklake"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for what in ("set-up of a fresh clone (packages, jars)", "the same again, nothing to do"):
        with times.taken(what):
            subprocess.run(["make", "--quiet", "setup"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    installation = Installation(clone / ".hooklake", clone=clone, ARCHIVE__WARM_UP="true")
    try:
        run_twice(installation, times=times)
    finally:
        installation.stop()
    return times


def run_twice(installation: Installation, *, times: Times) -> None:
    with times.taken("`up` until a POST is answered 202"):
        installation.start()
        installation.post(b'{"repository": {"full_name": "octo/first"}}', delivery="first")
    with times.taken("and until its row is in the table (Spark starts meanwhile)"):
        installation.until(installation.has_archived, "the first event is archived")
    with times.taken("the next POST until its row is in the table"):
        installation.post(b'{"repository": {"full_name": "octo/second"}}', delivery="second")
        installation.until(installation.has_archived, "the second event is archived")
    with times.taken("`hooklake query`, answered by the running archive"):
        assert len(installation.query("SELECT id FROM events")) == 2
    with times.taken("Ctrl-C until everything is stopped"):
        installation.stop()
    with times.taken("`up` again, with all earlier data, until a POST is answered 202"):
        installation.start()
        assert installation.post(b'{"repository": {"full_name": "octo/second"}}', delivery="second")["duplicate"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(measure(Path(folder)).table())


if __name__ == "__main__":
    main()
