"""Owns signatures: whether a request was signed with a key of its source, and how we would sign one ourselves.

One engine for all schemes. It sees the raw bytes before anybody believes them, and the scheme is the source's: nothing in a
request can choose another algorithm, header or key. Every fault is BadSignature or StaleTimestamp, and all of them look alike to
the sender; the message says for our log which one it was. Only a repeated header is MalformedRequest.

    given.py     what the request claims          keys.py, public_keys.py     who can have signed that
    signed.py    what is signed                   timestamps.py               whether it was signed just now
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from ingest.given import Given, given_by, signed_id
from ingest.keys import Key
from ingest.request import Request, with_member
from ingest.scheme import Header, Item, Member, Scheme
from ingest.signed import signed_contents
from ingest.timestamps import refuse_stale, written
from schemas.errors import BadSignature


class Proof(NamedTuple):
    """Why a request was believed: enough, with the body, to verify it again years later."""

    key_id: str
    signature_headers: dict[str, str]
    signed_url: str = ""


def verify(scheme: Scheme, *, request: Request, secrets: Sequence[Key], now: datetime) -> Proof:
    """Raises BadSignature, StaleTimestamp when it is only too old or too new, and MalformedRequest for a repeated header."""
    if scheme.algorithm == "none":
        return Proof("", {})
    given = given_by(request, scheme=scheme)
    contents = signed_contents(scheme, request=request, given=given)
    matched = ""
    for key in secrets:
        # All keys are tried, also after a match, so that the time taken does not tell which of them is in use.
        if key.made(given.signatures, contents):
            matched = key.key_id
    if not matched:
        raise BadSignature(f"none of the {len(secrets)} active secrets made the signature in {scheme.signature}")
    if scheme.timestamp is not None:
        # After the signature: only what the sender signed is a reason to call a request old.
        refuse_stale(given.timestamp, scheme=scheme, now=now)
    values = request.headers.values
    return Proof(matched, {name: values[name] for name in scheme.proof_headers}, request.url if scheme.is_url_bound else "")


@dataclass(slots=True)
class Signed:
    """What signing adds to a request. The body is another one only where the signature stands in it."""

    headers: dict[str, str]
    body: bytes


def sign(scheme: Scheme, *, request: Request, secret: Key, now: datetime) -> Signed:
    """Signs as the sender would; raises ConfigError where only the sender can, or where the body has no room for what is signed."""
    if scheme.uses_public_key:
        # Asked first whether it can: what such a sender signs may be of a form that no body of ours has (SNS), which is not the reason.
        secret.sign(b"")
    headers, body, timestamp = _stamped(scheme, body=request.body, now=now)
    stamped = replace(request, body=body)
    given = Given([], timestamp=timestamp, id=signed_id(stamped, scheme=scheme))
    signature = secret.sign(signed_contents(scheme, request=stamped, given=given)[0])
    if isinstance(scheme.signature, Member):
        return Signed(headers, with_member(body, path=scheme.signature.path, value=signature))
    headers[scheme.signature.name] = _header_value(scheme, signature=signature, timestamp=timestamp)
    return Signed(headers, body)


def _stamped(scheme: Scheme, *, body: bytes, now: datetime) -> tuple[dict[str, str], bytes, str]:
    if scheme.timestamp is None:
        return {}, body, ""
    text = written(now, unit=scheme.timestamp_unit)
    if isinstance(scheme.timestamp, Header):
        return {scheme.timestamp.name: text}, body, text
    if isinstance(scheme.timestamp, Member):
        value = int(text) if scheme.timestamp_unit == "ms" else text
        return {}, with_member(body, path=scheme.timestamp.path, value=value), text
    return {}, body, text


def _header_value(scheme: Scheme, *, signature: str, timestamp: str) -> str:
    if scheme.items is None:
        return scheme.prefix + signature
    items = [scheme.items.wanted + scheme.items.pair + signature]
    if isinstance(scheme.timestamp, Item):
        items.insert(0, scheme.timestamp.name + scheme.items.pair + timestamp)
    return scheme.items.separator.join(items)
