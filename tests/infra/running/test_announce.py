from __future__ import annotations

from pathlib import Path

import pytest

from infra.running.announce import Announcer, connect_addresses
from infra.running.initialise import initialise
from infra.running.services import RECEIVER
from infra.settings import load_settings


@pytest.mark.parametrize(
    ("archive", "shown"),
    [
        ("", "sc://localhost:15002, with the token of {home}/run/connect"),
        ("connect_port: 0", "the address in {home}/run/connect"),
        ("connect: false", ""),
    ],
)
def test_notebooks_are_told_where_to_connect(home: Path, archive: str, shown: str) -> None:
    (home / "hooklake.yaml").write_text(f"archive: {{{archive}}}\n")

    assert connect_addresses(load_settings(home)) == ([shown.format(home=home)] if shown else [])


@pytest.mark.parametrize("is_over", [False, True])
def test_the_example_is_shown_once_and_not_after_the_end(home: Path, capsys: pytest.CaptureFixture[str], is_over: bool) -> None:
    initialise(home)
    announcer = Announcer(load_settings(home), address=("0.0.0.0", 8080))

    if is_over:
        announcer.drop_example()
    announcer.on_ready(RECEIVER)
    announcer.on_ready(RECEIVER)

    assert capsys.readouterr().out.count("curl -sS http://127.0.0.1:8080/hooks/demo/github") == (0 if is_over else 1)
