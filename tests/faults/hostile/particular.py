"""Owns the attacks on sources with ways of their own: that sign members and not bodies, have a schema, or split."""

from __future__ import annotations

import json
from random import Random

from ingest.posting import SignedPost
from tests.faults.hostile.attacks import Attack, wire
from tests.faults.hostile.bodies import NASTY_TEXTS, nasty_value
from tests.faults.hostile.genuine import NOT_NOTIFIED, NOTIFIED, notification
from tests.faults.hostile.sources import MAX_BODY_BYTES, Target


def unsigned_member(rng: Random, target: Target) -> Attack:
    """Of a target that signs members: the others may say anything."""
    post = target.signed(number=rng.randrange(10**6))
    content = {**json.loads(post.body), rng.choice(NOT_NOTIFIED): rng.choice((*NASTY_TEXTS, None, 7, [], {}))}
    body = json.dumps(content).encode()
    return Attack("unsigned member", wire(SignedPost(post.path, post.headers, body)), body, must_be_accepted=True)


def other_letters(rng: Random, target: Target) -> Attack:
    """Of a target that signs members: what is no letter stands where a question mark was signed, as which it could be written."""
    message = json.dumps(notification(rng.randrange(10**6), message="Is it? Or is it not?")).encode()
    post = target.signed(message)
    body = post.body.replace(b"?", rng.choice((b"\\ud800", b"\\udfff", b"\xff", b"\xed\xa0\x80", b"\\ufffd")), rng.choice((1, 2)))
    return Attack("other letters", wire(SignedPost(post.path, post.headers, body)))


def repeated_member(rng: Random, target: Target) -> Attack:
    """Of a target that signs members: another value stands before the signed one, for readers that take the first, or where none is."""
    post, name = target.signed(number=rng.randrange(10**6)), rng.choice(NOTIFIED)
    # The subject may be missing, and null says the same.
    first = json.dumps(rng.choice((*NASTY_TEXTS, 7, [], {}, *([None] if name in json.loads(post.body) else []))))
    body = b'{"%b": %b, %b' % (name.encode(), first.encode(), post.body[1:])
    return Attack("repeated member", wire(SignedPost(post.path, post.headers, body)))


def misfit(rng: Random, target: Target) -> Attack:
    """For a target with a schema, which demands what is not there."""
    post = target.signed(json.dumps({rng.choice(NASTY_TEXTS): nasty_value(rng, depth=3)}).encode())
    return Attack("misfit", wire(post), target.storable(post.body))


def batch(rng: Random, target: Target) -> Attack:
    """For a target that splits: what cannot be split is kept whole, unless its scheme sends nothing but JSON."""
    elements = [json.dumps(nasty_value(rng, depth=2), ensure_ascii=False).encode("utf-8", "surrogatepass") for _ in range(rng.randrange(9))]
    gap = rng.choice((b",", b" ,\n", b"\t,\r\n", b",,", b", ,", b";"))
    body = rng.choice((b"[%b]", b" [ %b ] \n", b"[%b,]", b"[%b", b"%b]", b"[%b]]")) % gap.join(elements * rng.choice((1, 1, 1, 1, 300)))
    post = target.signed(body[:MAX_BODY_BYTES])
    return Attack("batch", wire(post), post.body, must_be_accepted=not target.source.scheme.demands_json)
