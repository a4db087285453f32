from __future__ import annotations

import sys
from pathlib import Path

import pytest

from processors.registry import ATTRIBUTE, Registry, load, processor
from schemas.errors import ConfigError


def registry_of(*pattern_lists: tuple[str, ...]) -> Registry:
    functions = []
    for patterns in pattern_lists:

        def function() -> None: ...

        function.__qualname__ = " ".join(patterns)
        functions.append(processor(*patterns)(function))
    return Registry(getattr(function, ATTRIBUTE) for function in functions)


@pytest.mark.parametrize(
    ("event_type", "chosen"),
    [
        ("github.push", "github.push"),
        ("github.pull_request.opened", "github.pull_request.*"),
        ("github.issues.closed", "github.*"),
        ("githubby.push", "*"),
        ("stripe.invoice.paid", "*"),
        ("", "*"),
    ],
)
def test_the_most_specific_pattern_wins(event_type: str, chosen: str) -> None:
    registry = registry_of(("*",), ("github.*",), ("github.pull_request.*",), ("github.push",))

    spec = registry.match(event_type)

    assert spec is not None
    assert spec.name.endswith(f":{chosen}")


def test_an_event_that_nobody_wants_matches_nothing() -> None:
    assert registry_of(("github.push",)).match("github.issues.opened") is None


def test_two_processors_with_one_pattern_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"both process 'github.push'; only one of them would run"):
        registry_of(("github.push",), ("*", "github.push"))


@pytest.mark.parametrize("pattern", ["git*", "*.push", "github.*.opened", "github*"])
def test_a_star_elsewhere_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="a `\\*` stands alone or after the last dot"):
        processor(pattern)


def test_the_decorator_leaves_the_function_as_it_is() -> None:
    @processor("*")
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8


def test_a_module_that_cannot_be_imported_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module_for_a_test.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    with pytest.raises(ConfigError, match="broken_module_for_a_test cannot be imported: ZeroDivisionError: division by zero"):
        load("broken_module_for_a_test")


def test_the_example_module_has_one_processor() -> None:
    assert [spec.name for spec in load("processors.example").specs] == ["processors.example:note"]
    assert [spec.name for spec in load("processors.example:note").specs] == ["processors.example:note"]
    with pytest.raises(ConfigError, match=r"processors\.example:nothing is no function with @processor"):
        load("processors.example:nothing")
