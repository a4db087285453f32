"""Owns the parameters of a question: from `name=value` on a command line to literals in the place of `:name`. Pure.

Spark has parameters of its own, but not beside Delta: of the two parsers, Delta's is asked first and knows none (Spark 4.2, Delta 4.4).
A value is written as a literal, and only then is the statement looked at: whatever it says, it gets no further than without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from schemas.errors import ConfigError

Value = None | bool | int | float | Decimal | date | datetime | str

GIVEN = re.compile(r"(?P<name>[A-Za-z_]\w*)(?::(?P<type>[a-z]+))?=(?P<value>.*)", re.DOTALL)
WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
FRACTION = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
MOMENT = re.compile(DATE.pattern + r"[T ][0-9]{2}:[0-9]{2}.*")
# What a `:` in it means nothing: texts, quoted names, comments, casts. Then the marker; `payload:ref` is a path, as it follows a name.
TOKENS = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | :: | (?<![\w)\]`'"]):(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL | re.VERBOSE,
)
WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None}


def parameters_of(given: Iterable[str]) -> dict[str, Value]:
    """Raises ConfigError for what is no `name=value` or `name:type=value`, or a name that is given twice."""
    found: dict[str, Value] = {}
    for text in given:
        match = GIVEN.fullmatch(text)
        if match is None:
            raise ConfigError(f"--param {text!r} is no name=value, so nothing was asked: write such as --param since=2026-01-31")
        name = match["name"]
        if name in found:
            raise ConfigError(f"--param {name} is given twice, so nothing was asked: give it once")
        found[name] = typed(match["value"], kind=match["type"], name=name) if match["type"] else guessed(match["value"])
    return found


def bound(sql: str, *, values: Mapping[str, Value]) -> str:
    """The statement with its values; raises ConfigError for one that it does not ask for."""
    used: set[str] = set()

    def replaced(token: re.Match[str]) -> str:
        if (name := token["name"]) is None or name not in values:
            return token[0]
        used.add(name)
        return literal(values[name])

    text = TOKENS.sub(replaced, sql)
    if unused := sorted(values.keys() - used):
        raise ConfigError(
            f"--param {unused[0]} is given, and the query has no :{unused[0]}, so nothing was asked: name it there, or leave it out"
        )
    return text


def literal(value: Value) -> str:
    """As SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"double('{value}')"
        case Decimal():
            return f"{value:f}BD"
        case datetime():
            return f"TIMESTAMP'{value.isoformat()}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"


def guessed(text: str) -> Value:
    """What the text looks like. `007` and what is longer than a BIGINT stay text."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if FRACTION.fullmatch(text):
        return float(text)
    for pattern, read in ((DATE, date.fromisoformat), (MOMENT, moment)):
        if pattern.fullmatch(text):
            try:
                return read(text)
            except ValueError:
                return text
    return text


def typed(text: str, *, kind: str, name: str) -> Value:
    read = TYPES.get(kind)
    if read is None:
        raise ConfigError(f"--param {name}:{kind} has no type that is known, so nothing was asked: use one of {', '.join(TYPES)}")
    try:
        return read(text)
    except (ValueError, InvalidOperation) as error:
        raise ConfigError(
            f"--param {name}:{kind}={text} is no {kind}, so nothing was asked: write it as SQL would, or leave the type out"
        ) from error


def moment(text: str) -> datetime:
    """An aware time; without a zone it is UTC, as everything in the tables is."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _boolean(text: str) -> bool:
    found = WORDS.get(text.lower())
    if not isinstance(found, bool):
        raise ValueError(text)
    return found


TYPES: Mapping[str, Callable[[str], Value]] = {
    "string": str,
    "bigint": int,
    "double": float,
    "decimal": Decimal,
    "boolean": _boolean,
    "date": date.fromisoformat,
    "timestamp": moment,
}
