"""The terminal session of the README really runs, and prints what the README shows."""

from __future__ import annotations

import re
import shlex

from tests.documents import ROOT
from tests.end_to_end.installation import Installation


def session() -> list[tuple[list[str], str]]:
    """The commands of the README's session, and what it shows below each."""
    (block,) = re.findall(r"<!-- session -->\n```console\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)[1:]
    return [(shlex.split(command), shown) for command, shown in zip(parts[::2], parts[1::2], strict=True)]


def shape(text: str) -> list[str]:
    """The lines without what differs from run to run: numbers, and the widths of columns."""
    lines = [re.sub(r"[━─]+", "─", re.sub(r"[0-9]+(\.[0-9]+)?", "N", line)) for line in text.splitlines()]
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_the_session_of_the_readme_runs(installation: Installation) -> None:
    commands = session()
    assert len(commands) >= 4

    for (program, *arguments), shown in commands:
        assert program == ".venv/bin/hooklake"
        if arguments[0] != "send":
            installation.until(installation.has_archived, "everything is archived")
            installation.until(installation.is_ready, "all is ready")
        ran = installation.run(*arguments)
        assert (ran.returncode, ran.stderr) == (0, ""), arguments
        assert shape(ran.stdout) == shape(shown), arguments
