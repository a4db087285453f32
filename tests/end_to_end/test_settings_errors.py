"""A wrong setting stops `hooklake up` with exit code 2 and one sentence: the setting, and what would follow from it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from tests.end_to_end.installation import Installation, descendants
from tests.ports import free_port

Content = dict[str, Any]


def github(content: Content) -> Content:
    source: Content = content["tenants"]["demo"]["sources"]["github"]
    return source


WRONG: dict[str, tuple[Callable[[Content], object], str]] = {
    "unknown section": (lambda c: c.update(grops={}), "grops is not a section of hooklake.yaml; did you mean groups?"),
    "unknown key": (
        lambda c: c["groups"]["example"].update(batchsize=3),
        "groups.example.batchsize is not a setting; did you mean batch_size?; it would have no effect",
    ),
    "wrong value": (lambda c: c["log"].update(shards=0), "log.shards is wrong: it must be at least 1 (it is 0)"),
    "missing secret": (
        lambda c: github(c).update(secrets=["env:NO_SUCH_SECRET"]),
        "tenants.demo.sources.github.secrets[0]: the environment has no NO_SUCH_SECRET",
    ),
    "no secret": (lambda c: github(c).update(secrets=[]), "tenants.demo.sources.github.secrets"),
    "written secret": (
        lambda c: github(c).update(secrets=["hunter2hunter2hunter2"]),
        "must be a reference, `file:secrets/name` or `env:NAME`",
    ),
    "bad name": (lambda c: c["tenants"].update({"De{mo}": c["tenants"]["demo"]}), "the name 'De{mo}' does not match"),
    "unknown scheme": (lambda c: github(c).update(scheme="githubb"), "githubb"),
    "reserved group": (lambda c: c["groups"].update(archive={"ops_port": free_port()}), "groups.archive: this name belongs to the archive"),
    "no such module": (
        lambda c: c["groups"]["example"].update(module="no_such_module"),
        "the processors' module no_such_module cannot be imported",
    ),
    "no master": (lambda c: c["archive"].update(master="foo"), "archive.master is wrong: Spark knows no master 'foo'"),
    "no place for tables": (lambda c: c["archive"].update(path="/proc/nope/lake"), "archive.path: /proc/nope/lake cannot be a directory"),
}


@pytest.fixture
def stopped(tmp_path: Path) -> Installation:
    """A home with settings, on which nothing runs."""
    installed = Installation(tmp_path / "home")
    initialise(installed.home)
    return installed


def assert_refused(installed: Installation, *, sentence: str) -> None:
    ran = installed.run("up")

    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert sentence in ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_setting_is_named(stopped: Installation, case: str) -> None:
    spoil, sentence = WRONG[case]
    path = stopped.home / "hooklake.yaml"
    content = yaml.safe_load(path.read_text())
    spoil(content)
    path.write_text(yaml.safe_dump(content))

    assert_refused(stopped, sentence=sentence)


@pytest.mark.parametrize(
    ("secret", "sentence"),
    [
        ("", "tenants.demo.sources.github.secrets[0]: the secret is empty"),
        ("short", "tenants.demo.sources.github.secrets[0]: the secret has 5 bytes, and at least"),
    ],
)
def test_an_empty_or_short_secret_is_refused(stopped: Installation, secret: str, sentence: str) -> None:
    (stopped.home / "secrets" / "demo-github").write_text(secret)

    assert_refused(stopped, sentence=sentence)


def test_a_secret_that_others_can_read_is_refused(stopped: Installation) -> None:
    (stopped.home / "secrets" / "demo-github").chmod(0o644)

    assert_refused(stopped, sentence="has mode 0644, so others on this machine can read the secret")


@pytest.mark.parametrize("setting", ["ingest.port", "ingest.ops_port", "groups.example.ops_port", "archive.ops_port"])
def test_a_port_in_use_is_named(stopped: Installation, setting: str) -> None:
    variable = "HOOKLAKE_" + setting.upper().replace(".", "__")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(stopped.environment[variable])))
        taken.listen()

        assert_refused(stopped, sentence=f"{setting}={stopped.environment[variable]}")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"maxmemory-policy": "allkeys-lru"}, "would delete accepted events"), ({"appendfsync": "everysec"}, "would lose accepted events")],
)
def test_a_log_server_that_may_lose_events_is_refused(
    stopped: Installation, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    server = EmbeddedServer(tmp_path / "unfit", free_port(), "a-test-password", options=options)
    server.start()
    stopped.environment["HOOKLAKE_LOG__URL"] = server.url
    try:
        assert_refused(stopped, sentence=sentence)
    finally:
        server.kill()


def test_a_refused_up_leaves_no_process_behind(stopped: Installation) -> None:
    before = set(descendants(1))
    (stopped.home / "secrets" / "demo-github").write_text("")

    assert_refused(stopped, sentence="the secret is empty")

    assert not [command for pid, command in descendants(1).items() if pid not in before and str(stopped.home) in command]
