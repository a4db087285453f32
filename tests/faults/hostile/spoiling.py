"""Owns the ways to spoil a signature: what a genuine one becomes, and putting that where it stood. None of them is ever right."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random

from ingest.posting import SignedPost
from ingest.request import put_member
from ingest.scheme import Header, Member, Scheme
from tests.ingest.labels import emptied, own_name, renamed, unnamed

OTHER_NAMES = ("sha1", "sha256", "sha512", "md5", "v0", "v1", "v9")

Spoiling = Callable[[Random, str], str | None]
"""None: nothing stands there any more."""


def _changed(rng: Random, value: str) -> str:
    at = rng.randrange(max(1, len(value) - 8), len(value))
    return value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :]


SPOILINGS: Mapping[str, Spoiling] = {
    "empty": lambda _, value: "",
    "a space": lambda _, value: " ",
    "shortened": lambda _, value: value[:-1],
    "one character more": lambda _, value: value + "0",
    "one character changed": _changed,
    "backwards": lambda _, value: value[::-1],
    "an equals sign in front": lambda _, value: "=" + value,
    "an algorithm in front": lambda _, value: "sha1=" + value,
    "no text": lambda _, value: "\xff" * 64,
    "other digits": lambda _, value: "０" * 64,
    "very long": lambda _, value: "0" * 9000,
    "no base64": lambda _, value: "!!!!",
    "missing": lambda _, value: None,
}
"""Of any header that proves something."""


def of_signature(scheme: Scheme) -> Mapping[str, Spoiling]:
    """The same, and those that know how this scheme writes its signatures."""

    def under_another_name(rng: Random, value: str) -> str:
        return renamed(scheme, value, name=rng.choice([name for name in OTHER_NAMES if name != own_name(scheme)]))

    named: dict[str, Spoiling] = {"another name": under_another_name, "nothing behind its name": lambda _, value: emptied(scheme, value)}
    if own_name(scheme):
        named["no name"] = lambda _, value: unnamed(scheme, value)
    return {**SPOILINGS, **named}


def signature_of(scheme: Scheme, *, post: SignedPost) -> str:
    if isinstance(scheme.signature, Header):
        return post.headers[scheme.signature.name]
    content = json.loads(post.body)
    for name in scheme.signature.path.split("."):
        content = content[name]
    return str(content)


def with_value(post: SignedPost, *, place: Header | Member, value: str | None) -> tuple[SignedPost, tuple[bytes, ...]]:
    """The request with another value there, and the lines that its head has for it: a header need not be one that can be sent as text."""
    if isinstance(place, Header):
        headers = {name: text for name, text in post.headers.items() if name != place.name}
        return SignedPost(post.path, headers, post.body), () if value is None else (b"%b: %b" % (place.name.encode(), value.encode()),)
    content = json.loads(post.body)
    put_member(content, path=place.path, value=value)  # type: ignore[arg-type]  # also null, which no sender of ours writes
    return SignedPost(post.path, post.headers, json.dumps(content).encode()), ()
