"""Owns what is signed: the bytes that a scheme's signature is made over, put together from the raw request. Pure.

Raises BadSignature when the request has not what they are made of.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from ingest.given import Given
from ingest.request import Request, form_fields, member_of, text_at
from ingest.scheme import BODY_ONLY, Part, Scheme
from schemas.errors import BadSignature

STANDARD_PORTS = {"https": 443, "http": 80}
BODY_HASH = "bodySHA256"
NOTIFIED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
CONFIRMED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
# Nothing else may stand under `Type`. It comes last and the topic before it, so what is signed ends in a line that only Amazon writes; of
# a type with lines of its own, a stranger's message could make up the topic and all that stands before it.
TYPES = {"Notification": NOTIFIED, "SubscriptionConfirmation": CONFIRMED, "UnsubscribeConfirmation": CONFIRMED}
# The escapes that HubSpot undoes before it signs, and no others.
_plain = re.compile(r"%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


def signed_contents(scheme: Scheme, *, request: Request, given: Given) -> list[bytes]:
    """What the signature may have been made over; more than one only where a sender writes its address in several ways."""
    if scheme.signed is BODY_ONLY:
        return [request.body]
    urls = _with_and_without_port(request) if scheme.port_may_vary else [request.url]
    return [b"".join(_pieces(scheme, request=request, given=given, url=url)) for url in urls]


def _pieces(scheme: Scheme, *, request: Request, given: Given, url: str) -> Iterable[bytes]:
    for part in scheme.signed:
        match part:
            case str():
                yield part.encode()
            case Part.BODY:
                yield request.body
            case Part.TIMESTAMP:
                yield _as_text(given.timestamp)
            case Part.ID:
                yield _as_text(given.id)
            case Part.METHOD:
                yield request.method.encode()
            case Part.URL:
                yield url.encode("latin-1", "replace")
            case Part.PLAIN_URL:
                yield _plain.sub(lambda found: chr(int(found[1], 16)), url).encode("latin-1", "replace")
            case Part.FORM:
                yield _form(request)
            case Part.NOTIFICATION:
                yield _notification(request)


def _with_and_without_port(request: Request) -> list[str]:
    parts = urlsplit(request.url)
    standard = STANDARD_PORTS.get(parts.scheme)
    if parts.port is None:
        return [request.url, parts._replace(netloc=f"{parts.netloc}:{standard}").geturl()]
    return [request.url, parts._replace(netloc=parts.netloc.rpartition(":")[0]).geturl()]


def _form(request: Request) -> bytes:
    """Fields by name, repeated values once and sorted. A body that is no form is covered by its hash in the signed address."""
    hashes = parse_qs(request.query).get(BODY_HASH, [])
    if hashes:
        if not hmac.compare_digest(hashlib.sha256(request.body).hexdigest().encode(), hashes[0].encode()):
            raise BadSignature(f"the body is not the one whose hash is in {BODY_HASH}")
        return b""
    if not request.body:
        return b""
    if not request.is_form:
        raise BadSignature(f"the body is no form, and the address has no {BODY_HASH}, so nothing covers the body")
    try:
        fields = form_fields(request.body)
    except ValueError as error:
        raise BadSignature("the body is no form") from error
    return "".join(f"{name}{value}" for name, value in sorted(set(fields))).encode()


def _notification(request: Request) -> bytes:
    content = request.json
    names = TYPES.get(text_at(content, "Type"))
    if names is None:
        raise BadSignature(f"the Type of the message is none of {', '.join(TYPES)}")
    found = {name: member_of(content, name) for name in names}
    lines = [f"{name}\n{value}\n" for name, value in found.items() if isinstance(value, str)]
    if [name for name in names if not isinstance(found[name], str) and (name, found[name]) != ("Subject", None)]:
        raise BadSignature("the body has not the members that are signed")
    if _repeats_a_member(request.body):
        raise BadSignature("a member of the body stands there twice")
    return _as_text("".join(lines))


def _repeats_a_member(body: bytes) -> bool:
    """The last of two is the one that is signed, and some readers take the first: whoever put it there would speak for the sender."""
    repeats = False

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeats
        found = dict(pairs)
        repeats = len(found) < len(pairs)  # Of the outermost object, which is made last.
        return found

    try:
        json.loads(body.decode("utf-8", "surrogateescape"), object_pairs_hook=members, parse_int=float)
    except (ValueError, RecursionError):
        return True  # Which nobody can tell; Amazon's messages are neither deep nor odd.
    return repeats


def _as_text(text: str) -> bytes:
    """What no text has, half a character or a byte that is no UTF-8, was never signed: written as `?`, it would pass for a signed one."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadSignature("what is signed has half a character in it, or a byte that is no UTF-8") from error
