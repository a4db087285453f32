"""Owns genuine bodies, as providers send them, and what of a body its sender's signature or its source's schema is about. Pure."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ingest.samples import sample
from ingest.scheme import Part, Scheme

EVENT_TYPE = "push"
TOPIC = "arn:aws:sns:us-west-2:123456789012:MyTopic"
# Not read from the receiver's code: what it takes for signed is what is in question.
NOTIFIED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type", "Signature")
NOT_NOTIFIED = ("SigningCertURL", "SignatureVersion", "UnsubscribeURL", "MessageAttributes", "Token", "SubscribeURL")


def genuine_body(scheme: Scheme, *, number: int) -> bytes:
    """A batch has one to four elements."""
    if Part.NOTIFICATION in scheme.signed:
        return json.dumps(notification(number)).encode()
    one = sample(scheme, event_type=EVENT_TYPE, number=number)
    if not scheme.is_batch:
        return one
    more = [sample(scheme, event_type=EVENT_TYPE, number=number)[1:-1] for _ in range(number % 4)]
    return b"[" + b" ,\n".join([one[1:-1], *more]) + b" ]"


def notification(number: int, *, message: str = "") -> dict[str, Any]:
    """A message of Amazon SNS but for its signature."""
    subject = {"Subject": f"change {number}"} if number % 2 else {}
    return {
        "Type": "Notification",
        "MessageId": str(uuid.uuid4()),
        "TopicArn": TOPIC,
        **subject,
        "Message": message or f'{{"number": {number}}}',
        "Timestamp": "2026-01-15T12:00:00.000Z",
        "SignatureVersion": "2",
        "Signature": "",
        "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
    }


def with_text(body: bytes | None, *, scheme: Scheme, number: int) -> bytes:
    """A genuine body that has another one as the text of its message, where its messages have one."""
    if body is None or Part.NOTIFICATION not in scheme.signed:
        return genuine_body(scheme, number=number)
    return json.dumps(notification(number, message=body.decode("latin-1"))).encode()


def notified(body: bytes) -> tuple[object, ...] | None:
    """What Amazon SNS signs of a body, and the signature; None where the body has no such members."""
    content = _object(body)
    return None if content is None else tuple(content.get(name) for name in NOTIFIED)


def has_number(body: bytes) -> bool:
    content = _object(body)
    return content is not None and "number" in content


def _object(body: bytes) -> dict[str, Any] | None:
    """By a parser that takes whatever the receiver's takes, and more: also bytes that are no UTF-8, and endless numbers."""
    try:
        content = json.loads(body.decode("utf-8", "surrogateescape"), parse_int=float)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
