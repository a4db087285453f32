from __future__ import annotations

import sys
from pathlib import Path

import pytest

from analytics.class_archive import class_archive, class_options, make_home, unzipped_home
from analytics.jars import spark_home
from analytics.java import Java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A Java of another place, in an environment that set-up has not been through."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    return Java(home=tmp_path / "java", major=17)


def test_each_java_has_an_archive_of_its_own(java: Java) -> None:
    before = class_archive(java)

    (java.home / "release").write_text('JAVA_VERSION="17.0.2"\n')

    assert class_archive(java) != before


def test_a_jvm_is_told_of_the_archive_when_there_is_one(java: Java) -> None:
    assert class_options(java) == ()

    class_archive(java).parent.mkdir(parents=True)
    class_archive(java).touch()

    assert class_options(java)[0] == f"-XX:SharedArchiveFile={class_archive(java)}"
    assert "-Xshare:auto" in class_options(java)


def test_sparks_home_is_the_one_of_set_up_or_else_one_in_the_scratch(java: Java, tmp_path: Path) -> None:
    before = unzipped_home(tmp_path / "scratch")
    made = make_home(class_archive(java).parent / "spark")

    assert before == tmp_path / "scratch" / "spark"
    assert unzipped_home(tmp_path / "scratch") == made
    assert sorted(path.name for path in made.iterdir()) == ["bin", "jars"]
    assert (made / "jars").resolve() == (spark_home() / "jars").resolve()
