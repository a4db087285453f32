from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.failpoints import VARIABLE, parse
from infra.settings import environment_with
from schemas.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
REACHES_IT_THREE_TIMES = "from infra.failpoints import reach\nfor n in range(3): reach('here'); print(n, flush=True)"


def run(failpoint: str) -> subprocess.CompletedProcess[str]:
    environment = environment_with({VARIABLE: failpoint})
    command = [sys.executable, "-c", REACHES_IT_THREE_TIMES]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_process_dies_at_the_failpoint_that_is_armed() -> None:
    assert run("here=kill").returncode == -signal.SIGKILL


def test_the_process_dies_the_third_time_when_told_so() -> None:
    done = run("here=kill@3")

    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "0\n1\n")


def test_other_failpoints_and_none_do_nothing() -> None:
    assert run("elsewhere=kill").stdout == "0\n1\n2\n"
    assert run("").stdout == "0\n1\n2\n"


def test_a_text_that_arms_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="name=kill"):
        parse("here=explode")


def test_a_failpoint_with_a_file_is_for_one_of_all_processes(tmp_path: Path) -> None:
    armed = f"here=kill:{tmp_path / 'once'}"

    assert run(armed).returncode == -signal.SIGKILL
    assert run(armed).stdout == "0\n1\n2\n"


FAMILY = """
import os, subprocess, sys
from infra.failpoints import victim
java = subprocess.Popen([sys.argv[1], "60"])
try:
    assert victim("kill_jvm", of=os.getpid()) == java.pid
    assert victim("kill_jvm", of=java.pid) == java.pid
    assert victim("kill_archive", of=java.pid) == os.getpid()
    assert victim("kill", of=java.pid) == java.pid
finally:
    java.kill()
    java.wait()
assert victim("kill_archive", of=os.getpid()) == os.getpid()
"""


def test_the_victim_is_found_among_ancestors_and_children(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.symlink_to("/bin/sleep")

    # A family of its own: the process of the tests may have a JVM already.
    done = subprocess.run([sys.executable, "-c", FAMILY, str(java)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
