from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processors.registry import ATTRIBUTE, Registry, load, processor, refuse_other_arguments
from schemas.errors import ConfigError


def registry_of(*pattern_lists: tuple[str, ...]) -> Registry:
    functions = []
    for patterns in pattern_lists:

        def function(event: object, delivery: object) -> None: ...

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
    def double(number: int, delivery: object) -> int:
        return 2 * number

    assert double(4, None) == 8


@pytest.mark.parametrize("pattern", ["A B", "", "github.push ", "github\n.push", " "])
def test_a_pattern_that_no_type_can_match_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="a pattern is an event type"):
        processor(pattern)


def test_a_decorator_without_patterns_is_refused() -> None:
    def function(event: object, delivery: object) -> None: ...

    for patterns in ((), (function,)):
        with pytest.raises(ConfigError, match="@processor needs at least one pattern"):
            processor(*patterns)


@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"timeout_ms": 0}, {"max_attempts": -1}, {"batch": 0}, {"concurrency": 0}])
def test_numbers_with_which_no_attempt_could_succeed_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"it must be at least 1, or no attempt could succeed"):
        processor("*", **options)


def test_a_batch_cannot_wait_for_less_than_nothing() -> None:
    with pytest.raises(ConfigError, match="batch_wait_ms=-1"):
        processor("*", batch=2, batch_wait_ms=-1)


def test_a_function_must_take_an_event_and_a_delivery() -> None:
    def one(event: object) -> None: ...
    def three(event: object, delivery: object, more: object) -> None: ...
    def by_name(*, event: object, delivery: object) -> None: ...
    async def two(event: object, delivery: object, more: object = None) -> None: ...
    def any_number(*arguments: object) -> None: ...

    for function in (one, three, by_name):
        with pytest.raises(ConfigError, match=rf"{function.__name__}\(.*\) -> 'None' cannot be called as a processor"):
            processor("*")(function)
    for fits in (two, any_number, print):
        refuse_other_arguments(fits)


def test_a_module_that_cannot_be_imported_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module_for_a_test.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    with pytest.raises(ConfigError, match="broken_module_for_a_test cannot be imported: ZeroDivisionError: division by zero"):
        load("broken_module_for_a_test")


def test_a_module_that_ends_the_process_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaving_module_for_a_test.py").write_text("import sys\nsys.exit(5)\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    with pytest.raises(ConfigError, match="leaving_module_for_a_test cannot be imported: SystemExit: 5"):
        load("leaving_module_for_a_test")


@pytest.mark.parametrize("name", ["../x", "my-module", "", ".x", "a b", "x.py/"])
def test_what_is_no_name_of_a_module_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is no name of a module, such as my_package\.my_module"):
        load(name)


def test_the_example_module_has_one_processor() -> None:
    assert [spec.name for spec in load("processors.example").specs] == ["processors.example:note"]
    assert [spec.name for spec in load("processors.example:note").specs] == ["processors.example:note"]
    with pytest.raises(ConfigError, match=r"processors\.example:nothing is no function with @processor"):
        load("processors.example:nothing")


def generate(event: object, delivery: object) -> Iterator[int]:
    yield 1


async def generate_async(event: object, delivery: object) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [generate, generate_async, functools.partial(generate_async)])
def test_a_function_that_a_call_would_not_run_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"test_registry:generate(_async)? has a `yield` in it"):
        processor("*")(function)


class Index:
    async def __call__(self, event: object, delivery: object) -> None: ...

    async def one(self, event: object, delivery: object) -> None: ...


@pytest.mark.parametrize(
    ("function", "name"), [(Index(), "Index"), (functools.partial(Index()), "Index"), (functools.partial(Index().one), "Index.one")]
)
def test_whatever_can_be_called_can_be_a_processor(function: Callable[..., Any], name: str) -> None:
    spec = getattr(processor("*")(function), ATTRIBUTE)

    assert spec.name == f"{__name__}:{name}"
    assert spec.is_async


def test_a_bound_method_cannot_be_marked_and_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"cannot mark .*Index\.one, a method; mark a function that calls it"):
        processor("*")(Index().one)
