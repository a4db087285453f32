"""The runner counts what it should, on a real server: otherwise its figures would mean nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from tests.benchmarks.bare_loop import BareLoop
from tests.benchmarks.ours import Hooklake
from tests.benchmarks.peer_venv import LOCK
from tests.benchmarks.progress import VARIABLE, Progress
from tests.benchmarks.racing import Contender, a_server, end, largest_resident_bytes, measure, start_process
from tests.benchmarks.rates import CannotMeasure
from tests.infra.running.processes import is_alive, until


@pytest.mark.parametrize(
    "contender",
    [BareLoop(300), Hooklake(300), Hooklake(300, settled_before=200, pending_before=100)],
    ids=["bare loop", "ours", "ours, among other entries"],
)
def test_all_events_of_a_contender_are_counted_and_no_other(contender: Contender, tmp_path: Path) -> None:
    with a_server(tmp_path, fsync="always") as server:
        contender.fill(server, tmp_path)
        count = contender.counter(server, tmp_path)
        assert count() == 0

        process = contender.start(server, tmp_path)
        try:
            until(lambda: count() >= 300, what="all events are done")
        finally:
            end(process)

        assert count() == 300
    assert not is_alive(process.pid)


@dataclass(frozen=True, slots=True)
class Script:
    """A contender that does not work out."""

    code: str
    events: int = 10
    name: str = "a script"

    def fill(self, server: EmbeddedServer, folder: Path) -> None:
        return

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        return start_process([sys.executable, "-c", self.code], environment={VARIABLE: str(folder / "progress")}, folder=folder, cwd=folder)

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        return Progress(folder / "progress").read


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("raise SystemExit('no such broker')", "a script ended with 1 after 0 of 10 events: no such broker"),
        ("import time; time.sleep(60)", "a script was not done within 1 s after 0 of 10 events"),
    ],
    ids=["one that dies", "one that hangs"],
)
def test_a_worker_that_does_not_finish_is_said_and_not_counted(code: str, sentence: str, tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, 1, password="never started")

    with pytest.raises(CannotMeasure, match=sentence):
        measure(Script(code), server=server, folder=tmp_path, within_s=1)


def test_the_memory_of_a_parents_largest_child_counts(tmp_path: Path) -> None:
    grown = "import sys; held = b'x' * 80_000_000; print('grown', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {grown!r}], stdin=subprocess.PIPE).wait()"
    process = start_process([sys.executable, "-c", parent], environment={}, folder=tmp_path, cwd=tmp_path)
    try:
        until(lambda: "grown" in (tmp_path / "worker.log").read_text(), what="the child has grown")

        assert largest_resident_bytes(process.pid) > 80_000_000
    finally:
        end(process)


def test_the_peers_lock_is_hashed_and_names_no_index() -> None:
    text = LOCK.read_text()
    packages = [block for block in text.split("\n") if block and not block.startswith((" ", "#"))]

    assert all("==" in package for package in packages)
    assert text.count("==") == len(packages) <= text.count("--hash=sha256:")
    assert "://" not in text
    assert "--index" not in text
