"""Owns what a request says about its event: type, subject, ordering key, delivery id and the headers worth keeping. Pure.

Raises only MalformedRequest, and only for what the scheme demands. Everything that is read from the body is advice:
a member that is missing or of another kind leaves its field empty, and the body is stored as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs

from ingest.headers import Headers
from ingest.json_body import parse
from ingest.schemes import Scheme
from schemas.errors import MalformedRequest

FORM = "application/x-www-form-urlencoded"
ALWAYS_STORED = ("content-type", "content-encoding", "user-agent")
LONGEST_NAME = 512

is_type = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}\Z").match
is_action = re.compile(r"[A-Za-z0-9_-]{1,100}\Z").match
is_delivery_id = re.compile(r"[!-~]{1,128}\Z").match


@dataclass(frozen=True, slots=True)
class Description:
    """The fields of a StreamEvent that come from the sender, apart from the body."""

    event_type: str
    repository: str
    delivery_id: str
    key: str
    content_type: str
    headers: dict[str, str]


def describe(scheme: Scheme, *, headers: Headers, body: bytes) -> Description:
    """Reads a verified request the way its scheme says; raises MalformedRequest when it is not such a request."""
    content_type = headers.one("content-type")
    content = _content(scheme, content_type=content_type, body=body)
    return Description(
        event_type=_event_type(scheme, headers=headers, content=content),
        repository=_name_at(scheme.repository, content=content),
        delivery_id=_delivery_id(scheme, headers=headers),
        key=_name_at(scheme.key, content=content),
        content_type=content_type,
        headers=_kept(scheme, headers=headers),
    )


def _content(scheme: Scheme, *, content_type: str, body: bytes) -> object:
    """The body as JSON; None when it is none and need not be."""
    if not (scheme.demands_json or scheme.repository or scheme.key or scheme.action):
        return None
    is_form = scheme.form_field != "" and content_type.partition(";")[0].strip().lower() == FORM
    try:
        content = parse(_form_value(body, field=scheme.form_field) if is_form else body)
    except ValueError as error:
        if scheme.demands_json:
            raise MalformedRequest(f"the body is no JSON, and scheme {scheme.name} sends nothing else") from error
        return None
    if scheme.demands_json and not isinstance(content, dict):
        raise MalformedRequest(f"the body is no JSON object, and scheme {scheme.name} sends nothing else")
    return content


def _form_value(body: bytes, *, field: str) -> str:
    """Raises ValueError when the body is no form with exactly one such field."""
    fields = parse_qs(body.decode("ascii"), strict_parsing=True, errors="strict", max_num_fields=16)
    (value,) = fields.get(field, [])
    return value


def _event_type(scheme: Scheme, *, headers: Headers, content: object) -> str:
    if not scheme.event_type_header:
        return f"{scheme.namespace}.received"
    name = headers.one(scheme.event_type_header)
    if not is_type(name):
        raise MalformedRequest(f"the header {scheme.event_type_header} is missing, or is no event type")
    action = content.get(scheme.action) if isinstance(content, dict) and scheme.action else None
    # GitHub lets users make up the action of a repository_dispatch: what would be no type of ours is left out.
    if isinstance(action, str) and is_action(action):
        return f"{scheme.namespace}.{name}.{action}"
    return f"{scheme.namespace}.{name}"


def _delivery_id(scheme: Scheme, *, headers: Headers) -> str:
    if not scheme.delivery_id_header:
        return ""
    delivery_id = headers.one(scheme.delivery_id_header)
    if not is_delivery_id(delivery_id):
        raise MalformedRequest(f"the header {scheme.delivery_id_header} is missing, or is no id of 1 to 128 characters")
    return delivery_id


def _name_at(pointer: str, *, content: object) -> str:
    if not pointer:
        return ""
    for member in pointer.split("."):
        content = content.get(member) if isinstance(content, dict) else None
    if isinstance(content, bool) or not isinstance(content, str | int):
        return ""
    name = str(content)
    return name if len(name) <= LONGEST_NAME and is_text(name) else ""


def is_text(name: str) -> bool:
    """False with half a character in it, which JSON can escape and nothing can store."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _kept(scheme: Scheme, *, headers: Headers) -> dict[str, str]:
    """An allow-list: whatever else a sender or a proxy adds (Authorization, Cookie) is never stored."""
    named = (*ALWAYS_STORED, scheme.delivery_id_header, scheme.event_type_header)
    return {
        name: value
        for name, value in headers.values.items()
        if name in named or (scheme.stored_headers and name.startswith(scheme.stored_headers))
    }
