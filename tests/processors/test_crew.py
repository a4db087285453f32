from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.settings import FILE_NAME
from processors.crew import Crew, Wanted, named_consumer, wanted_names
from schemas.errors import ConfigError


def test_two_workers_of_one_machine_have_two_names_and_keep_them(home: Path) -> None:
    with named_consumer("", group="g", home=home) as first, named_consumer("", group="g", home=home) as second:
        assert first != second
    with named_consumer("", group="g", home=home) as again, named_consumer("", group="other", home=home) as elsewhere:
        assert again == elsewhere == first
        assert re.fullmatch(r".+-0", first)


def test_a_name_in_use_is_refused(home: Path) -> None:
    refused = pytest.raises(ConfigError, match="--consumer mine is the name of a worker that runs in group g already")

    with named_consumer("mine", group="g", home=home), refused, named_consumer("mine", group="g", home=home):
        pass


def test_several_children_number_the_given_name() -> None:
    assert wanted_names("mine", count=1) == ["mine"]
    assert wanted_names("mine", count=2) == ["mine-0", "mine-1"]
    assert wanted_names("", count=2) == ["", ""]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def crew_of(home: Path, stack: ExitStack, *, consumer: str = "", children: int = 1) -> Crew:
    write(home, children=children)
    return Crew(Wanted("g", consumer=consumer), home=home, child_module="processors.child", held=stack)


def write(home: Path, *, children: int = 1, module: str = "processors.example") -> None:
    (home / FILE_NAME).write_text(f"groups: {{g: {{module: {module}, children: {children}}}}}\n")


def names_of(crew: Crew, *, again: bool = False) -> list[str]:
    return [child.name for child in crew.children(crew.muster_again() if again else crew.muster())]


def test_children_that_join_get_names_of_their_own_and_the_others_keep_theirs(home: Path, stack: ExitStack) -> None:
    crew = crew_of(home, stack, children=2)
    before = names_of(crew)

    write(home, children=3)
    more = names_of(crew, again=True)
    write(home, children=1)
    fewer = names_of(crew, again=True)

    assert (len(set(before)), more[:2], len(set(more)), fewer) == (2, before, 3, before[:1])


def test_a_given_name_is_numbered_when_others_join(home: Path, stack: ExitStack) -> None:
    crew = crew_of(home, stack, consumer="mine")
    before = names_of(crew)
    write(home, children=2)

    assert (before, names_of(crew, again=True)) == (["mine"], ["mine-0", "mine-1"])


def test_settings_that_are_not_fit_leave_the_copy_that_children_run_on_alone(home: Path, stack: ExitStack) -> None:
    crew = crew_of(home, stack, consumer="mine")
    crew.muster()
    copy = home / "run" / "g.mine.yaml"
    kept = copy.read_text()
    write(home, module="no_such_module")

    with pytest.raises(ConfigError, match="no_such_module"):
        crew.muster_again()

    assert copy.read_text() == kept
    assert [path.name for path in (home / "run").glob("*.yaml")] == ["g.mine.yaml"]
    assert copy.stat().st_mode & 0o077 == 0


def test_the_copy_goes_when_the_worker_ends(home: Path) -> None:
    with ExitStack() as stack:
        crew_of(home, stack).muster()
        assert list((home / "run").glob("*.yaml")) != []

    assert list((home / "run").glob("*.yaml")) == []
