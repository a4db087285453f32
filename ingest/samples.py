"""Owns the example events that `send` makes up: bodies as a provider would write them, each with fresh ids, so no two are alike."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

import orjson

from ingest.request import FORM, put_member
from ingest.samples_github import REPOSITORIES, github_body
from ingest.samples_others import OTHERS
from ingest.scheme import Header, Member, Place, Scheme

USUAL_ACTIONS = {"pull_request": "opened", "issues": "opened", "issue_comment": "created", "release": "published", "star": "created"}


def split_type(event_type: str, *, scheme: Scheme) -> tuple[str, str]:
    """Name and action of `pull_request.opened`, with or without the scheme's name in front."""
    name, _, action = event_type.removeprefix(f"{scheme.namespace}.").partition(".")
    if not scheme.action:
        return (f"{name}.{action}" if action else name), ""
    return name, action or USUAL_ACTIONS.get(name, "")


def sample(scheme: Scheme, *, event_type: str, number: int) -> bytes:
    """A body of the shape that the provider sends, of GitHub's also of the size."""
    name, action = split_type(event_type, scheme=scheme)
    if scheme.name == "github":
        return orjson.dumps(github_body(name, action=action, number=number))
    content = _like_others(scheme, number=number)
    return _written(_named(content, scheme=scheme, name=name, action=action), scheme=scheme)


def short_sample(scheme: Scheme, *, event_type: str) -> bytes:
    """The least body of that type; short enough for a command line."""
    name, action = split_type(event_type, scheme=scheme)
    content: dict[str, Any] = {"action": action} if action else {}
    if name == "push":
        content["ref"] = "refs/heads/main"
    if scheme.name == "github":
        return orjson.dumps({**content, "repository": {"full_name": REPOSITORIES[0]}, "sender": {"login": "octocat"}})
    return _written(_named(_like_others(scheme, number=1), scheme=scheme, name=name, action=action), scheme=scheme)


def content_type(scheme: Scheme) -> str:
    return FORM if scheme.is_form else "application/json"


def _like_others(scheme: Scheme, *, number: int) -> dict[str, Any]:
    make = OTHERS.get(scheme.name) or OTHERS.get(scheme.namespace)
    if make is None:
        return {"type": "", "number": number, "data": {"object": f"object-{number}", "status": "created"}}
    return make(number, uuid.uuid4().hex)


def _named(content: dict[str, Any], *, scheme: Scheme, name: str, action: str) -> dict[str, Any]:
    """The same with type, delivery id and subject where the scheme looks for them."""
    if "type" in content and not content["type"]:
        content["type"] = name
    put_member(content, path=_member(scheme.event_type), value=name)
    put_member(content, path=_member(scheme.delivery_id), value=uuid.uuid4().hex)
    if scheme.name not in OTHERS and scheme.namespace not in OTHERS:
        put_member(content, path=scheme.repository, value="example")
    if action:
        put_member(content, path=scheme.action, value=action)
    return content


def _member(places: tuple[Place, ...]) -> str:
    """The path of the place that comes first, when it is in the body."""
    first = next((place for place in places if isinstance(place, Header | Member)), None)
    return first.path if isinstance(first, Member) else ""


def _written(content: dict[str, Any], *, scheme: Scheme) -> bytes:
    if scheme.is_form:
        return urlencode({name: value for name, value in content.items() if isinstance(value, str | int)}).encode()
    return orjson.dumps([content] if scheme.is_batch else content)
