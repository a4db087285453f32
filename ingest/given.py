"""Owns reading what a request claims: its signatures, the time and the id that were signed. Nothing here is believed yet. Pure.

Raises BadSignature, and MalformedRequest for a header that stands there twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingest.request import Request, text_at
from ingest.scheme import Header, Item, Items, Member, Scheme
from schemas.errors import BadSignature

MOST_SIGNATURES = 5
"""Each one costs a comparison with every key, and a long header must not cost many of them."""
MOST_ITEMS = 16


@dataclass(slots=True)
class Given:
    """What a request says about its own signature."""

    signatures: list[bytes]
    timestamp: str = ""
    id: str = ""


def given_by(request: Request, *, scheme: Scheme) -> Given:
    value = _value_at(scheme.signature, request=request)
    if not value:
        raise BadSignature(f"there is no signature: no {scheme.signature}")
    given = Given([_bare(value, scheme=scheme)]) if scheme.items is None else _listed(value, items=scheme.items, scheme=scheme)
    if scheme.timestamp is not None and not isinstance(scheme.timestamp, Item):
        given.timestamp = _value_at(scheme.timestamp, request=request)
    if scheme.signs_id:
        given.id = signed_id(request, scheme=scheme)
    return given


def _bare(value: str, *, scheme: Scheme) -> bytes:
    if not value.startswith(scheme.prefix):
        raise BadSignature(f"the signature in {scheme.signature} does not begin with {scheme.prefix!r}")
    return _as_bytes(value[len(scheme.prefix) :])


def _listed(value: str, *, items: Items, scheme: Scheme) -> Given:
    """Of `t=1,v1=a,v1=b,v0=c` the time and the signatures a and b: `v0` is another scheme, and is never looked at."""
    pairs = [item.partition(items.pair) for item in value.split(items.separator, MOST_ITEMS)]
    if len(pairs) > MOST_ITEMS:
        raise BadSignature(f"{scheme.signature} is a list of more than {MOST_ITEMS} items")
    signatures = [_as_bytes(text) for name, _, text in pairs if name == items.wanted]
    if not signatures:
        raise BadSignature(f"there is no {items.wanted} signature in {scheme.signature}")
    return Given(signatures[:MOST_SIGNATURES], timestamp=_listed_time(pairs, scheme=scheme))


def _listed_time(pairs: list[tuple[str, str, str]], *, scheme: Scheme) -> str:
    if not isinstance(scheme.timestamp, Item):
        return ""
    times = [text for name, _, text in pairs if name == scheme.timestamp.name]
    if len(times) != 1:
        raise BadSignature(f"{scheme.signature} must have one {scheme.timestamp.name}, and has {len(times)}")
    return times[0]


def signed_id(request: Request, *, scheme: Scheme) -> str:
    """The id that is part of what is signed; "" where none is."""
    if not scheme.signs_id:
        return ""
    place = scheme.delivery_id[0]
    text = _value_at(place, request=request) if isinstance(place, Header | Member) else ""
    # With a dot in it, id and time could be divided in another way and still have the same signature.
    if not text or "." in text:
        raise BadSignature(f"the signed id, {place}, is missing or has a dot in it")
    return text


def _value_at(place: Header | Member | Item, *, request: Request) -> str:
    if isinstance(place, Header):
        return request.headers.one(place.name)
    return text_at(request.json, place.path) if isinstance(place, Member) else ""


def _as_bytes(text: str) -> bytes:
    # Headers came as latin-1. What a JSON body may have beyond it is in no signature's alphabet, and neither is the question mark.
    return text.encode("latin-1", "replace")
