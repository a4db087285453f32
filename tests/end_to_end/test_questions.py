"""Questions to an installation that runs: its archive answers them, and goes on archiving."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.end_to_end.installation import Installation

NEVER_ENDS = "SELECT count(*) FROM range(1000000000000)"


@pytest.fixture(scope="module")
def asked(installation: Installation) -> Installation:
    """With an archive that takes questions, and has rows."""
    installation.post(b'{"ref": "refs/heads/main"}', delivery="questions")
    installation.until(installation.is_ready, "all is ready")
    installation.until(installation.has_archived, "the event is archived")
    return installation


def test_the_archive_answers_and_no_other_spark_is_started(asked: Installation) -> None:
    done = asked.run("query", "SELECT count(*) AS n FROM events WHERE delivery_id = :id", "--param", "id=questions", "--json")

    assert (done.returncode, done.stderr, json.loads(done.stdout)) == (0, "", [{"n": 1}])
    assert not (asked.home / "run" / "spark-quick").exists()


@pytest.mark.parametrize("sql", ["DELETE FROM events", "SELECT * FROM text.`/etc/passwd`", "SELECT reflect('java.lang.System', 'exit', 1)"])
def test_what_is_more_than_a_question_has_exit_code_2(asked: Installation, sql: str) -> None:
    done = asked.run("query", sql)

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def test_the_notebook_of_the_readme_reads_the_table(asked: Installation, tmp_path: Path) -> None:
    (code,) = re.findall(r"<!-- notebook -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    (tmp_path / ".hooklake").symlink_to(asked.home)

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert "|github.push|" in done.stdout


def test_a_long_query_does_not_stop_the_archive_and_ctrl_c_ends_it(asked: Installation) -> None:
    command = [str(asked.hooklake), "query", NEVER_ENDS, "--timeout", "300"]
    before = ticks(asked)
    asking = subprocess.Popen(command, env=asked.environment, cwd=asked.root, stderr=subprocess.DEVNULL)
    try:
        asked.until(lambda: ticks(asked) - before > 400, "the archive's Spark is busy with it")
        asked.post(b'{"ref": "refs/heads/other"}', delivery="beside-a-long-query")
        asked.until(asked.has_archived, "the event is archived", within_s=200)
        assert asking.poll() is None

        asking.send_signal(signal.SIGINT)
        assert asking.wait(30) == 130
        asked.until(lambda: is_idle(asked), "the archive's Spark has left it")
    finally:
        asking.kill()
        asking.wait()


def is_idle(asked: Installation) -> bool:
    """Whether the archive's JVM takes less than half a core."""
    before = ticks(asked)
    time.sleep(1)
    return ticks(asked) - before < 50


def ticks(asked: Installation) -> int:
    """How many hundredths of a second of processor time the archive's JVM has taken."""
    pid = asked.pid_of("java", "spark-archive")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_the_prompt_answers_from_a_pipe_and_stops_at_the_first_refusal(asked: Installation) -> None:
    lines = "\\d\n\\f csv\nSELECT 1 AS one,\n  NULL AS nothing;\nSELECT 2 AS two;\nDROP TABLE events;\nSELECT 3 AS three;\n"
    command = [str(asked.hooklake), "sql"]

    done = subprocess.run(
        command, input=lines, env=asked.environment, cwd=asked.root, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 2
    assert '"one","nothing"\n1,\n"two"\n2\n' in done.stdout
    assert "three" not in done.stdout
    assert re.search(r"^events +[0-9]+", done.stdout, flags=re.M)


def test_the_tables_are_listed_with_their_columns(asked: Installation) -> None:
    listed = {table["name"]: table for table in json.loads(asked.run("tables", "--json").stdout)}
    shown = asked.run("tables", "events").stdout

    assert listed["events"]["rows"] >= 1
    assert listed["events"]["columns"][0]["name"] == "id"
    assert "The raw body, byte for byte as it was sent" in shown
    assert asked.run("tables", "nothing").returncode == 1
