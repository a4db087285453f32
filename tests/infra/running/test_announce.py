from __future__ import annotations

from pathlib import Path

import pytest

from infra.running.announce import Announcer
from infra.running.initialise import initialise
from infra.running.services import RECEIVER
from infra.settings import load_settings


@pytest.mark.parametrize("is_over", [False, True])
def test_the_example_is_shown_once_and_not_after_the_end(home: Path, capsys: pytest.CaptureFixture[str], is_over: bool) -> None:
    initialise(home)
    announcer = Announcer(load_settings(home), address=("0.0.0.0", 8080))

    if is_over:
        announcer.drop_example()
    announcer.on_ready(RECEIVER)
    announcer.on_ready(RECEIVER)

    assert capsys.readouterr().out.count("curl -sS http://127.0.0.1:8080/hooks/demo/github") == (0 if is_over else 1)
