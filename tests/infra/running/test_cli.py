from __future__ import annotations

import ast
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.running.cli import VERBS, find_verb, overview, unknown_verb
from infra.settings import environment_with
from tests.infra.running.processes import ROOT, run_module

HOOKLAKE = "import sys; from infra.running.cli import main; sys.argv[0] = 'hooklake'; main()"


def hooklake(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """The console script's own line, which also works where the project is not installed."""
    environment = environment_with({"HOOKLAKE_HOME": str(home), "PYTHONPATH": str(ROOT)})
    return subprocess.run(
        [sys.executable, "-c", HOOKLAKE, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_every_verb_names_a_module_that_exists_and_one_sentence() -> None:
    for verb in VERBS:
        assert importlib.util.find_spec(verb.module) is not None, verb
        assert verb.help.endswith(".")
        assert verb.help[0].isupper()


def test_the_table_has_all_verbs() -> None:
    names = "up init send sources append status query sql tables replay report upkeep erase audit doctor dead-letters quarantine "
    names += "groups work ingest archive healthcheck"

    assert [verb.name for verb in VERBS] == names.split()


def test_help_lists_every_verb_with_its_sentence(home: Path) -> None:
    done = hooklake("--help", home=home)

    assert done.returncode == 0
    assert done.stdout.strip() == overview()
    assert all(verb.help in done.stdout for verb in VERBS)


def test_the_command_imports_none_of_the_services_and_little_else() -> None:
    tree = ast.parse((ROOT / "infra" / "running" / "cli.py").read_text())
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}

    assert imported == {"__future__", "dataclasses", "importlib", "typing", "infra.running.shadowing"}


def test_no_verb_shows_the_help_and_exits_with_2(home: Path) -> None:
    done = hooklake(home=home)

    assert done.returncode == 2
    assert "Usage: hooklake VERB" in done.stdout


def test_an_unknown_verb_is_one_sentence_with_the_nearest_verb(home: Path) -> None:
    done = hooklake("quary", home=home)

    assert done.returncode == 2
    assert done.stderr == "hooklake: 'quary' is no verb of hooklake; did you mean `hooklake query`?\n"
    assert "use one of up, init" in unknown_verb("xyzzy")


def test_a_verb_shows_its_own_help_under_its_own_name(home: Path) -> None:
    done = hooklake("init", "--help", home=home)

    assert done.returncode == 0
    assert done.stdout.startswith("Usage: hooklake init [OPTIONS]")


def test_the_exit_code_of_a_verb_passes_through(home: Path) -> None:
    assert hooklake("init", "--nonsense", home=home).returncode == 2
    assert hooklake("healthcheck", home=home).returncode == 2
    assert hooklake("init", home=home).returncode == 0
    assert hooklake("healthcheck", "log", home=home).returncode == 1
    assert hooklake("status", home=home).returncode == 3


def test_an_error_of_ours_is_one_sentence_on_stderr(home: Path) -> None:
    done = run_module("infra.running.status", home=home)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"hooklake: {home}/hooklake.yaml does not exist, so there is nothing to run: write one with `hooklake init`\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["send"], "missing argument 'source'; `hooklake send --help` shows what can be given"),
        (["status", "--jsn"], "no such option: --jsn"),
        (["work"], "missing option '--group'"),
        (["dead-letters", "lst"], "no such command 'lst'"),
        (["dead-letters", "show"], "missing argument 'name'; `hooklake dead-letters show --help`"),
        (["dead-letters", "list", "--limit", "many"], "invalid value for '--limit': "),
        (["ingest", "--port", "99999"], "invalid value for '--port': "),
    ],
)
def test_a_wrong_argument_is_one_sentence(home: Path, arguments: list[str], sentence: str) -> None:
    done = hooklake(*arguments, home=home)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"hooklake: {sentence}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_a_verb_with_verbs_of_its_own_shows_them_when_none_is_given(home: Path) -> None:
    done = hooklake("dead-letters", home=home)

    assert done.returncode == 2
    assert "Usage: hooklake dead-letters" in done.stdout + done.stderr
    assert "requeue" in done.stdout + done.stderr
    assert hooklake("dead-letters", "show", "--help", home=home).returncode == 0


def test_a_signal_reaches_the_verb_itself(home: Path, tmp_path: Path) -> None:
    """The command becomes the verb's process, so whoever supervises it needs no forwarding."""
    module = tmp_path / "waits.py"
    module.write_text("import sys, time\nprint('here', flush=True)\ntime.sleep(60)\n")
    script = "import sys; from infra.running import cli; cli.VERBS = (cli.Verb('wait', 'waits', 'Waits.'),); cli.main()"
    environment = environment_with({"HOOKLAKE_HOME": str(home), "PYTHONPATH": f"{ROOT}:{tmp_path}"})
    process = subprocess.Popen([sys.executable, "-c", script, "wait"], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=10) == -signal.SIGTERM
    process.stdout.close()


def test_help_comes_quickly(home: Path) -> None:
    """The stated figure is 0.3 s; five times that catches an import that does not belong there, also on a busy machine."""
    began = time.monotonic()
    hooklake("--help", home=home)

    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("name", ["up", "dead-letters"])
def test_a_verb_is_found_by_its_name(name: str) -> None:
    verb = find_verb(name)

    assert verb is not None
    assert verb.name == name


def test_help_that_nobody_reads_to_its_end_says_nothing_else(home: Path) -> None:
    environment = environment_with({"HOOKLAKE_HOME": str(home), "PYTHONPATH": str(ROOT)})
    process = subprocess.Popen(
        [sys.executable, "-c", HOOKLAKE, "--help"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


UNCAUGHT = """
import threading, typer
from infra.running.cli import run
app = typer.Typer()

@app.command()
def main() -> None:
    thread = threading.Thread(target=lambda: 1 / 0, name="aside")
    thread.start()
    thread.join()
    raise ValueError("of nobody")

run(app, service="test")
"""


def test_what_nobody_caught_is_a_line_of_the_services_log(home: Path) -> None:
    environment = environment_with({"HOOKLAKE_HOME": str(home), "PYTHONPATH": str(ROOT)})
    done = subprocess.run([sys.executable, "-c", UNCAUGHT], env=environment, capture_output=True, text=True, timeout=60, check=False)

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert [(line["event"], line["reason"], line["level"], line["service"]) for line in lines] == [
        ("a thread failed", "ZeroDivisionError: division by zero", "critical", "test"),
        ("the process failed", "ValueError: of nobody", "critical", "test"),
    ]
    assert all("Traceback" in line["exception"] for line in lines)
