"""Owns what a request says about its event: type, subject, ordering key, delivery id and the headers worth keeping. Pure.

Raises only MalformedRequest, and only for what the scheme demands: a header that every request of its provider has, and JSON.
Everything that is read from the body is advice: a member that is missing or of another kind leaves its field empty, and the body
is stored as it came.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs

from ingest.json_body import parse
from ingest.request import Request, member_of, text_at
from ingest.scheme import Digest, Header, Member, Place, Scheme, Within
from schemas.errors import MalformedRequest

LONGEST_NAME = 512

is_type = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}\Z").match
is_action = re.compile(r"[A-Za-z0-9_-]{1,100}\Z").match
is_delivery_id = re.compile(r"[!-~]{1,128}\Z").match


class Description(NamedTuple):
    """The fields of a StreamEvent that come from the sender, apart from the body."""

    event_type: str
    repository: str
    delivery_id: str
    key: str
    content_type: str
    headers: dict[str, str]


def describe(scheme: Scheme, *, request: Request) -> Description:
    """Reads a verified request the way its scheme says; raises MalformedRequest when it is not such a request."""
    content = content_of(scheme, request=request)
    return Description(
        event_type=event_type(scheme, request=request, content=content),
        repository=_name_at(scheme.repository, content=content),
        delivery_id=delivery_id(scheme, request=request, content=content),
        key=_name_at(scheme.key, content=content),
        content_type=request.headers.one("content-type"),
        headers=_kept(scheme, request=request),
    )


def describe_item(scheme: Scheme, *, request: Request, item: object, whole: Description, number: int) -> Description:
    """One item of a batch that is described as a `whole`: what the item says about itself, and the rest as the batch has it.

    Its delivery id is its own; else that of the batch, with the item's number. Items have no ordering key.
    """
    named = (_text(place, request=None, content=item) for place in scheme.delivery_id if not isinstance(place, Digest))
    numbered = f"{whole.delivery_id}#{number}" if whole.delivery_id else ""
    return whole._replace(
        event_type=event_type(scheme, request=request, content=item),
        repository=_name_at(scheme.repository, content=item),
        delivery_id=next(filter(is_delivery_id, named), numbered),
        key="",
    )


def content_of(scheme: Scheme, *, request: Request) -> object:
    """The body as a value: JSON, or the fields of a form; None when it is neither and need not be."""
    if not scheme.reads_body:
        return None
    content = _content(scheme, request=request)
    if scheme.demands_json and not isinstance(content, list | dict if scheme.is_batch else dict):
        wanted = "array or object" if scheme.is_batch else "object"
        raise MalformedRequest(f"the body is no JSON {wanted}, and scheme {scheme.name} sends nothing else")
    return content


def _content(scheme: Scheme, *, request: Request) -> object:
    """By the scheme, and by Content-Type only where a body under another one is refused.

    Nobody signs that header. A request that is sent again under another one would have another delivery id, and what `sign-token` signs
    for anybody would be a form.
    """
    if scheme.is_form:
        return request.fields if request.is_form else request.json
    if scheme.form_field and scheme.demands_json:
        return _in_field(scheme.form_field, request=request) if request.is_form else request.json
    if scheme.form_field and request.json is None:
        return _in_field(scheme.form_field, request=request) or request.fields
    return request.json


def _in_field(name: str, *, request: Request) -> object:
    """The JSON in the one field of a form that holds it."""
    try:
        fields = parse_qs(request.body.decode("ascii"), strict_parsing=True, errors="strict", max_num_fields=16)
        (value,) = fields.get(name, [])
        return parse(value)
    except ValueError:
        return None


def event_type(scheme: Scheme, *, request: Request, content: object) -> str:
    if scheme.is_batch and isinstance(content, list):
        return f"{scheme.namespace}.batch"
    name = _first(scheme.event_type, scheme=scheme, request=request, content=content, fits=is_type)
    if not name:
        return f"{scheme.namespace}.received"
    # GitHub lets users make up the action of a repository_dispatch: what would be no type of ours is left out.
    action = member_of(content, scheme.action) if scheme.action else None
    is_refined = isinstance(action, str) and is_action(action)
    return f"{scheme.namespace}.{name}.{action}" if is_refined else f"{scheme.namespace}.{name}"


def delivery_id(scheme: Scheme, *, request: Request, content: object) -> str:
    places = scheme.delivery_id
    if scheme.is_batch and isinstance(content, list) and places:
        # What stands in the body is the name of an item, not of the batch.
        places = (*(place for place in places if not isinstance(place, Member)), Digest())
    return _first(places, scheme=scheme, request=request, content=content, fits=is_delivery_id)


def _first(places: tuple[Place, ...], *, scheme: Scheme, request: Request, content: object, fits: Callable[[str], object]) -> str:
    """The first fitting text; raises MalformedRequest where there is none, though it could only stand in headers."""
    is_demanded = bool(places)
    for place in places:
        if isinstance(place, Digest):
            return _digest(request, scheme=scheme, timestamped=place.timestamped)
        text = _text(place, request=request, content=content)
        is_demanded = is_demanded and isinstance(place, Header)
        if fits(text):
            return text
    if is_demanded:
        raise MalformedRequest(f"{places[0]} is missing, or is not what it is for")
    return ""


def _text(place: Header | Member | Within, *, request: Request | None, content: object) -> str:
    """What stands there; without a request, only what stands in the body."""
    if isinstance(place, Header):
        return request.headers.one(place.name) if request else ""
    if isinstance(place, Member):
        return text_at(content, place.path)
    both = [_text(part, request=request, content=content) for part in (place.giver, place.name)]
    # Each one is hashed by itself, so that no end of one can be the beginning of the other.
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in both]
    return hashlib.sha256(b"".join(digests)).hexdigest() if all(both) else ""


def _digest(request: Request, *, scheme: Scheme, timestamped: bool) -> str:
    hashed = hashlib.sha256()
    if timestamped and isinstance(scheme.timestamp, Header):
        hashed.update(request.headers.one(scheme.timestamp.name).encode("latin-1"))
    hashed.update(request.body)
    return hashed.hexdigest()


def _name_at(path: str, *, content: object) -> str:
    if not path:
        return ""
    name = text_at(content, path)
    return name if len(name) <= LONGEST_NAME and is_text(name) else ""


def is_text(name: str) -> bool:
    """False with half a character in it, which JSON can escape and nothing can store."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _kept(scheme: Scheme, *, request: Request) -> dict[str, str]:
    """An allow-list: whatever else a sender or a proxy adds (Authorization, Cookie) is never stored."""
    named, stored = scheme.kept_headers, scheme.stored_headers
    return {name: value for name, value in request.headers.values.items() if name in named or name.startswith(stored)}
