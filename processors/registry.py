"""Owns the `@processor` decorator and the choice of the processor for an event type."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar

from processors.batches import taking_one
from processors.middleware import Middleware, surrounded
from processors.retry import Exponential
from schemas.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., Any])
ATTRIBUTE = "__hooklake_processor__"
DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_BATCH_WAIT_MS = 5


@dataclass(frozen=True, slots=True)
class ProcessorSpec:
    """What the decorator was told; `max_attempts` None means the group's setting."""

    name: str
    function: Callable[..., Any]
    patterns: tuple[str, ...]
    max_attempts: int | None
    timeout_ms: int
    key: bool = False
    """Events of one key run one after the other, in the order of their stream."""
    is_async: bool = False
    retry: tuple[int, ...] | Exponential | None = None
    """None means the group's setting."""
    middleware: tuple[Middleware, ...] = ()
    """The first is outermost."""
    batch: int | None = None
    """The function gets lists, of so many events at most."""
    batch_wait_ms: int = DEFAULT_BATCH_WAIT_MS
    """How long an event waits for others to come."""
    concurrency: int | None = None
    """How many calls run at once; None means the group's setting."""

    @property
    def has_gate(self) -> bool:
        return self.batch is not None or self.concurrency is not None


def processor(
    *patterns: str,
    max_attempts: int | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    retry: Sequence[int] | Exponential | None = None,
    key: bool = False,
    middleware: Sequence[Middleware] = (),
    batch: int | None = None,
    batch_wait_ms: int = DEFAULT_BATCH_WAIT_MS,
    concurrency: int | None = None,
) -> Callable[[Function], Function]:
    """Marks a function as the processor of event types: exact (`github.push`) or by prefix (`github.*`, `*`).

    `retry` says how long to wait after the first, second, ... failed attempt: milliseconds, or `Exponential(...)`.
    With `key` events of one key run one after the other, in their order, also over retries. `middleware` is around every attempt.
    With `batch` the function gets lists of up to so many events and their deliveries, whatever has come within `batch_wait_ms`;
    `concurrency` is how many of its calls run at once in one child. Only attaches a spec; a worker that is told the module finds it
    there. Raises ConfigError for what can never work.
    """
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError("@processor needs at least one pattern, such as `github.push` or `*`; without one no event would reach it")
    for pattern in patterns:
        if reason := why_no_pattern(pattern):
            raise ConfigError(f"@processor({pattern!r}): {reason}")
    counts = {"max_attempts": max_attempts, "timeout_ms": timeout_ms, "batch": batch, "concurrency": concurrency}
    for option, value in counts.items():
        if value is not None and value < 1:
            raise ConfigError(f"@processor({patterns[0]!r}, {option}={value}): it must be at least 1, or no attempt could succeed")

    if batch_wait_ms < 0:
        raise ConfigError(f"@processor({patterns[0]!r}, batch_wait_ms={batch_wait_ms}): nobody can wait for less than nothing")
    for one in middleware:
        if not isinstance(one, Middleware):
            raise ConfigError(f"@processor({patterns[0]!r}, middleware=[{one!r}]): it is no Middleware; write an instance, as in Timing()")

    def attach(function: Function) -> Function:
        refuse_other_functions(function)
        refuse_other_arguments(function)
        waits = retry if retry is None or isinstance(retry, Exponential) else tuple(retry)
        is_async = any(map(inspect.iscoroutinefunction, (innermost(function), type(innermost(function)).__call__)))
        name = name_of(function)
        spec = ProcessorSpec(
            name, function, patterns, max_attempts, timeout_ms, key, is_async, waits, tuple(middleware), batch, batch_wait_ms, concurrency
        )
        try:
            setattr(function, ATTRIBUTE, spec)
        except AttributeError as error:
            raise ConfigError(f"@processor cannot mark {spec.name}, a {type(function).__name__}; mark a function that calls it") from error
        return function

    return attach


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a partial is of. Pure."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Callable[..., Any]) -> str:
    """`module:name` of a function or of an object's class. Pure."""
    named = innermost(function)
    return f"{named.__module__}:{getattr(named, '__qualname__', type(named).__qualname__)}"


def why_no_pattern(pattern: str) -> str:
    """Why no event could ever match it, or an empty text. Pure."""
    if not pattern or not pattern.isprintable() or " " in pattern:
        return "a pattern is an event type, as in `github.push`, and has no spaces"
    if "*" in pattern[:-1] or (pattern.endswith("*") and not (pattern == "*" or pattern.endswith(".*"))):
        return "a `*` stands alone or after the last dot, as in `github.pull_request.*`"
    return ""


def refuse_other_functions(function: Callable[..., Any]) -> None:
    """Raises ConfigError for what can be called and would then not run: its events would be acked unprocessed."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{name_of(function)} has a `yield` in it, so a call would run nothing of it; write a function that returns")


def refuse_other_arguments(function: Callable[..., Any]) -> None:
    """Raises ConfigError for a function that cannot be called with an event and a delivery."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Some that are written in C do not tell.
        return
    try:
        signature.bind("event", "delivery")
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(
            f"{name}{signature} cannot be called as a processor, with an event and its delivery ({error}), so every attempt would fail"
        ) from error


class Registry:
    """The processors of one group; an event goes to exactly one of them, the most specific."""

    def __init__(self, specs: Iterable[ProcessorSpec]) -> None:
        """Raises ConfigError when two processors have the same pattern: which of them should run?"""
        self._by_pattern: dict[str, ProcessorSpec] = {}
        for spec in map(as_called, specs):
            for pattern in spec.patterns:
                other = self._by_pattern.setdefault(pattern, spec)
                if other is not spec:
                    raise ConfigError(f"{other.name} and {spec.name} both process {pattern!r}; only one of them would run")
        # Senders choose the types, so what is remembered of them is bounded.
        self.match = functools.lru_cache(maxsize=1024)(self._match)
        if not self._by_pattern:
            raise ConfigError("the module has no function with @processor, so every event would be acked unprocessed")

    @property
    def specs(self) -> list[ProcessorSpec]:
        return list(dict.fromkeys(self._by_pattern.values()))

    @property
    def keeps_order(self) -> bool:
        return any(spec.key for spec in self.specs)

    def _match(self, event_type: str) -> ProcessorSpec | None:
        """Exact first, then the longest prefix; None when nobody wants the event."""
        if event_type in self._by_pattern:
            return self._by_pattern[event_type]
        parts = event_type.split(".")
        for length in range(len(parts) - 1, 0, -1):
            found = self._by_pattern.get(".".join(parts[:length]) + ".*")
            if found is not None:
                return found
        return self._by_pattern.get("*")


def as_called(spec: ProcessorSpec) -> ProcessorSpec:
    """The processor as a worker calls it. What runs in a thread gets its middleware there (`dispatch.py`), around the thread."""
    if spec.batch is not None:
        spec = replace(spec, function=taking_one(spec.function, is_async=spec.is_async))
    if spec.middleware and spec.is_async:
        around = surrounded(spec.function, processor=spec.name, middleware=spec.middleware)
        spec = replace(spec, function=around, middleware=())
    return spec


def load(reference: str) -> Registry:
    """The registry of `module`, or of the one function `module:name`; raises ConfigError with the import's own error."""
    return Registry(specs_called(reference))


def specs_called(reference: str) -> list[ProcessorSpec]:
    """The processors of `module`, or the one function `module:name`; raises ConfigError."""
    module_name, _, name = reference.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"the processors' module {module_name!r} is no name of a module, such as my_package.my_module; nothing was run")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # A user's module may do anything at import; whatever it is, the worker cannot start.
        raise ConfigError(f"the processors' module {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    return [_spec_called(name, module=module)] if name else specs_in(module)


def specs_in(module: ModuleType) -> list[ProcessorSpec]:
    """What the decorator attached to the module's functions."""
    found = [getattr(value, ATTRIBUTE, None) for value in vars(module).values()]
    return [spec for spec in found if isinstance(spec, ProcessorSpec)]


def _spec_called(name: str, *, module: ModuleType) -> ProcessorSpec:
    spec = getattr(getattr(module, name, None), ATTRIBUTE, None)
    if not isinstance(spec, ProcessorSpec):
        raise ConfigError(f"{module.__name__}:{name} is no function with @processor, so there is nothing to run")
    return spec
