"""Owns `Request`: one request as its sender signed it, with what only its source can know about its address."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from ingest.headers import Headers
from ingest.json_body import parse
from schemas.errors import ConfigError

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 1000
_UNREAD = object()


@dataclass(slots=True)
class Request:
    """Raw bytes and raw text: nothing is decoded, unescaped or parsed before it is asked for."""

    headers: Headers
    body: bytes
    method: str = "POST"
    query: str = ""
    public_url: str = ""
    """The address that the sender posts to, without a query; empty where no scheme asks for it."""
    _json: object = field(default=_UNREAD, repr=False)

    @property
    def url(self) -> str:
        """The address as the sender has it."""
        return f"{self.public_url}?{self.query}" if self.query else self.public_url

    @property
    def is_form(self) -> bool:
        return self.headers.one("content-type").partition(";")[0].strip().lower() == FORM

    @property
    def json(self) -> object:
        """The body's JSON, whatever Content-Type calls it, which nobody signs; None when it is none. Read once."""
        if self._json is _UNREAD:
            self._json = _parsed(self.body)
        return self._json

    @property
    def fields(self) -> object:
        """The body's fields as those of a form; None when it is none, though nearly every text is one."""
        try:
            return dict(form_fields(self.body))
        except ValueError:
            return None


def _parsed(body: bytes) -> object:
    try:
        return parse(body)
    except ValueError:
        return None


def form_fields(body: bytes) -> list[tuple[str, str]]:
    """The fields in their order, with repeated and empty ones; raises ValueError when the body is no form."""
    text = body.decode("ascii")
    return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS) if text else []


def member_of(content: object, path: str) -> object:
    """What stands at a dotted path; None when there is nothing. Numbers count the items of a list."""
    for name in path.split("."):
        if isinstance(content, dict):
            content = content.get(name)
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return content


def text_at(content: object, path: str) -> str:
    """The text or whole number at a dotted path, as text; "" when there is none."""
    value = member_of(content, path)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def with_member(body: bytes, *, path: str, value: str | int) -> bytes:
    """The same JSON object with `value` at a dotted path; raises ConfigError when the body is none."""
    try:
        content = orjson.loads(body)
        put_member(content, path=path, value=value)
        return orjson.dumps(content)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"the body is no JSON object that could hold {path}, which is part of the signature; nothing was sent") from error


def put_member(content: dict[str, Any], *, path: str, value: str | int) -> None:
    """Puts `value` at a dotted path, making the objects on the way; lists must be there. Does nothing for an empty path."""
    *parents, last = path.split(".")
    place: Any = content
    for name in parents:
        if isinstance(place, list):
            place = place[int(name)]
            continue
        if not isinstance(place.get(name), dict | list):
            place[name] = {}
        place = place[name]
    if last:
        place[last] = value
