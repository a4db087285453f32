from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.settings import FILE_NAME, load_settings
from schemas.errors import ConfigError


@pytest.fixture
def home(home: Path) -> Path:
    (home / FILE_NAME).write_text("log: {url: embedded}\n")
    return home


def refusal(home: Path) -> str:
    """The one sentence."""
    with pytest.raises(ConfigError) as caught:
        _ = load_settings(home).log
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_variable_overrides_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLAKE_LOG__URL", "redis://log:6379/0")
    monkeypatch.setenv("hooklake_log__shards", "8")
    monkeypatch.setenv("HOOKLAKE_FAILPOINT", "archive.before_move=kill")
    monkeypatch.setenv("HOOKLAKE_HOME", str(home))

    assert (load_settings().log.url, load_settings().log.shards) == ("redis://log:6379/0", 8)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("HOOKLAKE_LOGG__URL", "HOOKLAKE_LOG__URL"),
        ("HOOKLAKE_TELEMTRY__TRACES", "HOOKLAKE_TELEMETRY__TRACES"),
        ("HOOKLAKE_HOM", "HOOKLAKE_HOME"),
    ],
)
def test_a_variable_that_nothing_reads_is_refused_with_the_nearest_known(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, "x")

    assert refusal(home) == f"{variable} is not a variable that anything reads; did you mean {meant}?; it would have no effect"


def test_the_embedded_log_cannot_be_replicated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLAKE_LOG__DURABILITY", "replicated")

    assert refusal(home).startswith("log is wrong: durability is replicated, and the embedded server has no replicas")


def test_a_variable_of_an_unknown_setting_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLAKE_LOG__URLL", "redis://log")

    assert refusal(home) == "log.urll is not a setting; did you mean url?; it would have no effect"


def test_a_secret_may_be_kept_under_a_name_that_begins_like_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLAKE_GITHUB_SECRET", "hunter2hunter2hunter2")
    assert refusal(home).startswith("HOOKLAKE_GITHUB_SECRET is not a variable")

    (home / FILE_NAME).write_text('tenants: {demo: {sources: {github: {secrets: ["env:HOOKLAKE_GITHUB_SECRET"]}}}}')

    assert load_settings(home).log.url == "embedded"


@pytest.mark.parametrize(
    ("value", "sentence"), [("garbage", "HOOKLAKE_LOG is no JSON object"), ("5", "log is wrong: it must be a mapping of names to values")]
)
def test_a_section_that_is_no_section_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str) -> None:
    monkeypatch.setenv("HOOKLAKE_LOG", value)

    assert refusal(home).startswith(sentence)


def test_a_log_that_has_no_address_is_named_without_its_password(home: Path) -> None:
    (home / FILE_NAME).write_text("log: {url: 'localhost:6379'}")
    assert refusal(home) == (
        "log.url is wrong: it is neither `embedded` nor an address that begins with redis://, rediss://, unix://, redis+sentinel:// "
        "or redis+cluster://"
    )

    (home / FILE_NAME).write_text("log: {url: 'redis://:hunter2@localhost:port'}")
    assert "hunter2" not in refusal(home)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may read everything, so the test gives that up for a moment."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_file_that_may_not_be_read_is_named(home: Path) -> None:
    (home / FILE_NAME).chmod(0)

    with without_rights():
        sentence = refusal(home)

    assert sentence.startswith(f"{home / FILE_NAME} cannot be read (Permission denied), so there is nothing to run")


def test_a_folder_in_the_files_place_is_named(home: Path) -> None:
    (home / FILE_NAME).unlink()
    (home / FILE_NAME).mkdir()

    assert refusal(home).startswith(f"{home / FILE_NAME} cannot be read (Is a directory)")


@pytest.mark.parametrize("word", ["off", '"off"', "no"])
def test_off_needs_no_quotes(home: Path, word: str) -> None:
    (home / FILE_NAME).write_text(f"telemetry: {{traces: {word}}}\n")

    assert load_settings(home).telemetry.traces == "off"


def test_a_name_that_yaml_reads_as_a_number_is_told_apart(home: Path) -> None:
    (home / FILE_NAME).write_text("tenants: {12: {}}\n")

    assert refusal(home) == "tenants.12 is wrong: the name 12 is no text; put it in quotes"
