from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from infra.running.child import Child, RestartPolicy, describe_end, stop_stages
from infra.running.supervisor import Supervisor, rotate
from infra.settings import environment_with
from schemas.errors import ConfigError
from tests.infra.running.a_supervisor import child, pids_of
from tests.infra.running.processes import ROOT, end_recorded, is_alive, until

QUICK = RestartPolicy(first_s=0.05, cap_s=0.2)


class Run:
    """A supervisor in a thread, with what it said."""

    def __init__(self, directory: Path, *children: Child, on_ready: Callable[[str], None] = lambda _: None) -> None:
        self.said: list[str] = []
        self.stop, self.kill = threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        self.supervisor = Supervisor(list(children), directory / "logs", self.said.append, on_ready=on_ready, policy=QUICK)
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.supervisor.run(self.stop, kill=self.kill)
        except ConfigError as error:
            self.failure = error

    def heard(self, text: str) -> bool:
        return any(text in sentence for sentence in self.said)


@contextmanager
def running(directory: Path, *children: Child, **options: Callable[[str], None]) -> Iterator[Run]:
    run = Run(directory, *children, **options)
    run.thread.start()
    try:
        yield run
    finally:
        run.stop.set()
        run.thread.join(timeout=30)
        assert not run.thread.is_alive()


def test_waits_double_up_to_the_cap_and_a_healthy_life_begins_anew() -> None:
    policy = RestartPolicy(first_s=0.5, cap_s=30, healthy_s=30)

    assert [policy.delay_s(deaths) for deaths in (1, 2, 3, 6, 7, 500)] == [0.5, 1, 2, 16, 30, 30]
    assert policy.deaths_after(5, lived_s=2) == 6
    assert policy.deaths_after(5, lived_s=31) == 1


def test_children_stop_stage_by_stage(tmp_path: Path) -> None:
    names = {"log": 3, "receiver": 0, "worker-a": 1, "archive": 2, "worker-b": 1}
    children = [child(name, directory=tmp_path, stop_stage=stage) for name, stage in names.items()]

    assert stop_stages(children) == [["receiver"], ["worker-a", "worker-b"], ["archive"], ["log"]]


def test_an_end_is_described_as_a_person_would() -> None:
    assert describe_end(-9) == "died (signal 9)"
    assert describe_end(3) == "exited with 3"


def test_a_child_that_is_retired_is_not_started_again_and_its_successor_may_refuse(tmp_path: Path) -> None:
    refuses = replace(child("first", directory=tmp_path), command=[sys.executable, "-c", "raise SystemExit(2)"])
    with running(tmp_path, child("first", directory=tmp_path), child("second", directory=tmp_path)) as run:
        until(run.supervisor.are_all_ready, what="both are ready")
        pid = run.supervisor.pid_of("first")
        assert pid is not None

        run.supervisor.retire("first")
        until(lambda: run.supervisor.names() == ["second"], what="it is forgotten")
        run.supervisor.add(refuses, is_successor=True)
        until(lambda: run.heard("first exited with 2, restarting"), what="its successor is started again")

    assert not is_alive(pid)
    assert run.failure is None


def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with running(tmp_path, child("worker", directory=tmp_path)) as run:
        until(lambda: run.heard("worker is ready after"), what="the worker is ready")
        first = run.supervisor.pid_of("worker")
        assert first is not None

        os.kill(first, signal.SIGKILL)

        until(lambda: run.supervisor.pid_of("worker") not in (None, first), what="another worker runs")
        assert run.heard("worker died (signal 9), restarting in 0.05 s")


def test_a_child_that_keeps_dying_is_waited_for_longer_each_time(tmp_path: Path) -> None:
    dies = "import sys; print('hooklake: the log is away', file=sys.stderr); sys.exit(3)"

    with running(tmp_path, child("worker", directory=tmp_path, program=dies)) as run:
        until(lambda: len(run.said) >= 4, what="it died four times")

    assert run.said[:4] == [f"worker exited with 3, restarting in {wait} s: the log is away" for wait in ("0.05", "0.1", "0.2", "0.2")]


def test_a_child_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    answers = threading.Event()
    answers.set()

    with running(tmp_path, child("worker", directory=tmp_path, is_alive=answers.is_set, hung_after_s=1.0)) as run:
        until(lambda: run.heard("worker is ready after"), what="the worker is ready")
        first = run.supervisor.pid_of("worker")
        answers.clear()

        until(lambda: run.heard("worker has not answered for 1 s and is killed"), what="the hung worker is killed")
        answers.set()
        until(lambda: run.supervisor.pid_of("worker") not in (None, first), what="another worker runs")


def test_without_a_folder_for_logs_children_write_to_our_output_and_their_refusal_is_ours(tmp_path: Path) -> None:
    program = f"""
import threading
from pathlib import Path
from infra.running.supervisor import Supervisor
from tests.infra.running.a_supervisor import child
refuses = "import sys; print('hooklake: no such module', file=sys.stderr); sys.exit(2)"
Supervisor([child("worker", directory=Path({str(tmp_path)!r}), program=refuses)], None, print).run(threading.Event())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=environment_with({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "hooklake: no such module\n")


def test_no_child_and_no_grandchild_is_left_after_a_stop(tmp_path: Path) -> None:
    with running(tmp_path, child("worker", directory=tmp_path), child("archive", directory=tmp_path, stop_stage=1)):
        until(lambda: all(len(pids_of(tmp_path, name)) == 2 for name in ("worker", "archive")), what="all four run")
        pids = pids_of(tmp_path, "worker") + pids_of(tmp_path, "archive")

    assert [pid for pid in pids if is_alive(pid)] == []


def test_what_a_dead_child_left_behind_is_gone_before_its_restart(tmp_path: Path) -> None:
    """A JVM whose Python died would go on writing beside the next one."""
    with running(tmp_path, child("archive", directory=tmp_path)) as run:
        until(lambda: len(pids_of(tmp_path, "archive")) == 2, what="child and grandchild run")
        first = run.supervisor.pid_of("archive")
        assert first is not None
        (grandchild,) = [pid for pid in pids_of(tmp_path, "archive") if pid != first]

        os.kill(first, signal.SIGKILL)
        until(lambda: run.supervisor.pid_of("archive") not in (None, first), what="another archive runs")

        assert not is_alive(grandchild)


def test_kill_9_of_the_supervisor_leaves_no_child(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.infra.running.a_supervisor", str(tmp_path), "receiver", "worker"]
    supervisor = subprocess.Popen(command, env=environment_with({"PYTHONPATH": str(ROOT)}), stdout=subprocess.DEVNULL)
    until(lambda: all(len(pids_of(tmp_path, name)) == 2 for name in ("receiver", "worker")), what="all four run")
    pids = pids_of(tmp_path, "receiver") + pids_of(tmp_path, "worker")
    children = [pid for pid in pids if os.getsid(pid) == pid]

    supervisor.kill()
    supervisor.wait(timeout=10)

    try:
        until(lambda: not any(is_alive(pid) for pid in children), what="both children are gone", within_s=10)
    finally:
        # Grandchildren are their parents' business: ours here ignore their end. When this test is red, children are left too.
        # Each is ended by the number it wrote down, and only while that number is still the same program.
        for pid in pids:
            end_recorded(pid, argument=str(tmp_path))


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program = stubborn + "import sys, time, pathlib; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"

    with running(tmp_path, child("worker", directory=tmp_path, program=program, grace_s=0.3)) as run:
        until(lambda: run.heard("ready"), what="the worker is ready")
        pid = run.supervisor.pid_of("worker")
        assert pid is not None

    assert run.heard("worker did not stop in 0.3 s and is killed")
    assert not is_alive(pid)


def test_a_second_signal_cuts_the_grace_short(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

    with running(tmp_path, child("worker", directory=tmp_path, program=program, grace_s=600, is_ready=lambda: True)) as run:
        until(lambda: run.heard("ready"), what="the worker runs")
        run.stop.set()
        run.kill.set()
        run.thread.join(timeout=20)

        assert not run.thread.is_alive()


def test_stages_stop_one_after_the_other(tmp_path: Path) -> None:
    """The receiver, which stops slowly, is gone before the log gets its signal."""
    notes = tmp_path / "notes"
    program = (
        "import signal, sys, time, pathlib\n"
        "def stop(*_):\n"
        f"    time.sleep(0.3 if 'receiver' in sys.argv[1] else 0); open({str(notes)!r}, 'a').write(sys.argv[1] + '\\n'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    )

    children = [child(name, directory=tmp_path, program=program, stop_stage=stage) for name, stage in (("log", 3), ("receiver", 0))]
    with running(tmp_path, *children) as run:
        until(lambda: run.heard("log is ready") and run.heard("receiver is ready"), what="both are ready")

    assert [Path(line).stem for line in notes.read_text().splitlines()] == ["receiver", "log"]


def test_a_child_waits_for_the_one_it_needs_but_not_for_ever(tmp_path: Path) -> None:
    never = child("log", directory=tmp_path, is_ready=lambda: False)
    needs = child("worker", directory=tmp_path, after="log")
    patient = child("archive", directory=tmp_path, after="log", patience_s=0.5)

    with running(tmp_path, never, needs, patient) as run:
        until(lambda: run.heard("archive is ready"), what="the patient one started")

        assert run.supervisor.pid_of("worker") is None


def test_a_child_that_this_machine_cannot_run_is_left_out(tmp_path: Path) -> None:
    without = child("archive", directory=tmp_path, why_not=lambda: "Java 17 or newer is missing")

    with running(tmp_path, without, child("worker", directory=tmp_path, why_not=str)) as run:
        until(lambda: run.heard("worker is ready"), what="the other one runs")
        until(lambda: run.heard("archive is not started: Java 17 or newer is missing"), what="the reason is said")

        assert run.supervisor.pid_of("archive") is None
    assert len([sentence for sentence in run.said if "archive" in sentence]) == 1


def test_readiness_that_comes_and_goes_is_said_and_told(tmp_path: Path) -> None:
    flag, told = tmp_path / "flag", list[str]()

    with running(tmp_path, child("receiver", directory=tmp_path, is_ready=flag.exists), on_ready=told.append) as run:
        flag.touch()
        until(lambda: run.heard("receiver is ready after"), what="it is ready")
        flag.unlink()
        until(lambda: run.heard("receiver is not ready any more"), what="it is not ready any more")
        until(lambda: told == ["receiver"], what="who waits for readiness was told")


def test_a_probe_that_hangs_does_not_hold_up_the_others(tmp_path: Path) -> None:
    release = threading.Event()
    hangs = child("receiver", directory=tmp_path, is_ready=lambda: release.wait(30))

    with running(tmp_path, hangs, child("worker", directory=tmp_path)) as run:
        until(lambda: run.heard("worker is ready"), what="the worker is ready", within_s=15)
        release.set()


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            "import sys; sys.exit('hooklake: ingest.prot is not a setting')",
            "worker exited with 1, restarting in 0.05 s: ingest.prot is not a setting",
        ),
        ("raise KeyError('bug')", "worker exited with 1, restarting in 0.05 s: KeyError: 'bug'"),
    ],
)
def test_a_death_is_told_with_the_childs_last_words(tmp_path: Path, program: str, sentence: str) -> None:
    with running(tmp_path, child("worker", directory=tmp_path, program=program)) as run:
        until(lambda: run.heard(sentence), what=sentence)


def test_settings_that_a_child_refuses_stop_everything_with_its_sentence(tmp_path: Path) -> None:
    refuses = "import sys; print('{\"event\": \"x\"}'); print('hooklake: ingest.prot is not a setting', file=sys.stderr); sys.exit(2)"

    with running(tmp_path, child("worker", directory=tmp_path), child("receiver", directory=tmp_path, program=refuses)) as run:
        run.thread.join(timeout=20)

    assert str(run.failure) == "ingest.prot is not a setting"
    assert [pid for pid in pids_of(tmp_path, "worker") if is_alive(pid)] == []


def test_settings_that_break_while_it_runs_do_not_stop_the_others(tmp_path: Path) -> None:
    """The file was edited, then the worker died: the receiver must go on receiving."""
    works_once = "import os, sys, time\nif os.path.exists(sys.argv[1]): sys.exit(2)\nopen(sys.argv[1], 'w').close(); time.sleep(600)"

    with running(tmp_path, child("worker", directory=tmp_path, program=works_once)) as run:
        until(lambda: run.heard("worker is ready"), what="it was ready once")
        pid = run.supervisor.pid_of("worker")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        until(lambda: run.heard("worker exited with 2, restarting"), what="it is tried again")
        assert run.thread.is_alive()


def test_large_logs_are_put_aside_at_the_next_start(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("wb") as file:
        file.truncate(30 * 1024 * 1024)

    rotate(log)

    assert not log.exists()
    assert (tmp_path / "worker.log.1").stat().st_size == 30 * 1024 * 1024


def test_a_child_that_does_not_become_ready_is_told_once_with_the_reason(tmp_path: Path) -> None:
    ready = threading.Event()
    slow = child("receiver", directory=tmp_path, is_ready=ready.is_set, why_unready=lambda: "no log", slow_after_s=0.3)

    with running(tmp_path, slow) as run:
        until(lambda: run.heard("receiver is not ready after 0 s: no log"), what="the reason is told")
        ready.set()
        until(lambda: run.heard("receiver is ready after"), what="it is ready")
        ready.clear()
        until(lambda: sum("no log" in sentence for sentence in run.said) == 2, what="the reason is told again")
        ready.set()
        until(lambda: run.heard("receiver is ready again after"), what="it is ready again")

    assert sum("no log" in sentence for sentence in run.said) == 2
