"""Owns the sentence about a setting that does not fit its model: which one it is, what is wrong, what to write instead. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

# pydantic's words are Python's; a settings file is written by people who may not know Python.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "greater_than_equal": "it must be at least {ge}",
        "greater_than": "it must be above {gt}",
        "less_than_equal": "it must be at most {le}",
        "less_than": "it must be below {lt}",
        "int_parsing": "it must be a whole number",
        "int_type": "it must be a whole number",
        "int_from_float": "it must be a whole number",
        "int_parsing_size": "it must be a whole number of fewer digits",
        "bool_parsing": "it must be true or false",
        "bool_type": "it must be true or false",
        "string_type": "it must be a text; put it in quotes",
        "string_pattern_mismatch": "it must match {pattern}",
        "string_too_short": "it must have at least {min_length} characters",
        "too_short": "it must have at least {min_length} items",
        "literal_error": "it must be {expected}",
        "tuple_type": 'it must be a list, as in ["..."]',
        "list_type": 'it must be a list, as in ["..."]',
        "dict_type": "it must be a mapping of names to values",
        "model_type": "it must be a mapping of names to values",
        "model_attributes_type": "it must be a mapping of names to values",
    }
)
# Somebody may have written the secret itself where its reference belongs.
NEVER_SHOWN = ("secret", "secrets", "headers", "url")


def explain(error: ValidationError, *, model: type[BaseModel], at: str) -> str:
    """One sentence about the first fault that pydantic found."""
    first = error.errors(include_url=False)[0]
    path = ".".join([*([at] if at else []), *(str(part) for part in first["loc"])])
    if first["type"] == "extra_forbidden":
        known = _fields_at(model, location=first["loc"][:-1])
        return f"{path} is not a setting{did_you_mean(str(first['loc'][-1]), known)}; it would have no effect"
    if first["type"] == "missing":
        return f"{path} is missing; it has no default"
    if first["type"] == "value_error":  # A validator of ours, which says itself what may be shown.
        return f"{path} is wrong: {one_line(first['ctx']['error'])}"
    if first["loc"][-1:] == ("[key]",):
        return f"{path.removesuffix('.[key]')} is wrong: the name {first['input']!r} is no text; put it in quotes"
    return f"{path} is wrong: {_words(first)}{_shown(first)}"


def _words(fault: ErrorDetails) -> str:
    known = WORDS.get(fault["type"])
    return known.format(**fault.get("ctx", {})) if known else one_line(fault["msg"])


def _shown(fault: ErrorDetails) -> str:
    given = fault["input"]
    if given is None:
        return " (it is empty)"
    is_shown = not isinstance(given, dict | list) and not any(part in NEVER_SHOWN for part in fault["loc"])
    return f" (it is {given!r})" if is_shown else ""


def _fields_at(model: type[BaseModel], *, location: tuple[int | str, ...]) -> list[str]:
    current: Any = model
    for part in location:
        fields = getattr(current, "model_fields", {})
        annotation = fields[part].annotation if part in fields else (get_args(current) or (None,))[-1]
        is_optional = type(None) in get_args(annotation)
        current = get_args(annotation)[0] if is_optional else annotation
    return list(getattr(current, "model_fields", {}))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f" (known: {', '.join(known)})" if known else ""


def one_line(error: object) -> str:
    return " ".join(str(error).split())
