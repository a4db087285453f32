"""Owns bodies that parsers stumble over: broken and deep JSON, numbers and characters at the edge, compressed and large things. Pure."""

from __future__ import annotations

import gzip
import json
from random import Random

from tests.faults.hostile.sources import MAX_BODY_BYTES

NASTY_TEXTS = (
    "", "\0", "\x7f", "\r\n", "\u202e", "\ufeff", "\u2028", "a" * 5000, "../../etc/passwd", "%2e%2e%2f", "{0}", "{n}:events", "*", "?[",
    "demo:github", "'; DROP TABLE events; --", "<script>alert(1)</script>", "\x1b]52;c;AAAA\x07", "=1+1", "${jndi:ldap://x}",
    "ＧＩＴ", "🦊" * 50,
    "null", "true", "-0", "NaN", "__proto__", "__class__",
)  # fmt: skip
FIXED = (
    b"", b" ", b"{", b"}", b"[]", b"null", b"true", b"0", b'""', b"\0", b"{}\0", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}{}", b"{} x",
    b"{'a': 1}", b"{a: 1}", b'{"a": 1,}',
    b'{"a": NaN}', b'{"a": Infinity}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": -1e-999}', b'{"a": 01}', b'{"a": 1.}',
    b'{"a": .5}', b'{"a": +1}', b'{"a": 0x10}',
    b'{"a": 18446744073709551616}', b'{"a": ' + b"9" * 5000 + b"}", b'{"a": 1' + b"0" * 20000 + b"}",
    b'{"a": "\\ud800"}', b'{"a": "\\udc00\\ud800"}', b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', b'{"a": "\xc0\x80"}',
    b'{"a": "\xf5\x80\x80\x80"}', b'{"a": "\n"}', b'{"a": "\\x"}',
    b'{"a": 1, "a": 2}', b'{"\\ud800": 1}', b'{"": {"": {"": 0}}}',
    b"[1, 2]", b" [ {} ,\n{}\t] ", b"[1,]", b"[,1]", b"[1 2]", b"[1, NaN]", b'["\\ud800", 1]', b'["]", "[", ",", "\\"]"]', b"[[1, 2], [3]]",
    b"[" + b"1," * 999 + b"1]", b"[" + b"1," * 1000 + b"1]", b"[1" + b"0" * 5000 + b", 1]",
    '["é", "\U0001f98a", "\u2028"]'.encode(), b'["\xff", 1]',
    b"[" * 20000, b'{"a":' * 8000, b"[" * 10000 + b"]" * 10000, b'{"a":' * 500 + b"1" + b"}" * 500, b"[[" * 500 + b"]]" * 500,
    '{"a": 1}'.encode("utf-16"), '{"a": 1}'.encode("utf-16-le"), '{"a": 1}'.encode("utf-32"), '{"a": "é"}'.encode("latin-1"),
    b"payload=%7B%7D", b"payload=", b"payload=%", b"payload=%zz", b"payload=%7B%7D&payload=%7B%7D", b"payload=" + b"%5B" * 10000,
    b"=&=&=", b"&" * 5000,
    b"--x\r\nContent-Disposition: form-data; name=a; filename=b\r\n\r\nc\r\n--x--\r\n",
    b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
    gzip.compress(b"{}"), gzip.compress(b"\0" * 1_000_000), gzip.compress(b"{}")[:-3], gzip.compress(gzip.compress(b"{}")),
)  # fmt: skip
MEMBERS = (
    "action",
    "ref",
    "repository",
    "sender",
    "id",
    "type",
    "event",
    "created",
    "data",
    "object",
    "key",
    "challenge",
    "number",
    "timestamp",
)


def nasty_body(rng: Random) -> bytes:
    kind = rng.randrange(6)
    if kind <= 1:
        return rng.choice(FIXED)
    if kind == 2:
        return rng.randbytes(rng.randrange(200))
    body = json.dumps(nasty_object(rng), ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return mutated(body, rng=rng) if kind == 3 else body


def nasty_object(rng: Random) -> dict[str, object]:
    """What looks like an event, with members of the wrong kind."""
    return {name: nasty_value(rng, depth=3) for name in rng.sample(MEMBERS, rng.randrange(1, 8))}


def nasty_value(rng: Random, *, depth: int) -> object:
    plain: list[object] = [rng.choice(NASTY_TEXTS), rng.randrange(-(2**70), 2**70), rng.random() * 1e300, None, True, [], {}, "\ud800"]
    if depth == 0 or rng.random() < 0.5:
        return rng.choice(plain)
    if rng.random() < 0.3:
        return [nasty_value(rng, depth=depth - 1) for _ in range(rng.randrange(4))]
    return {
        rng.choice(("full_name", "login", "id", *MEMBERS, *NASTY_TEXTS)): nasty_value(rng, depth=depth - 1) for _ in range(rng.randrange(4))
    }


def mutated(data: bytes, *, rng: Random) -> bytes:
    """A few bytes changed, added, doubled or left out."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at, kind = rng.randrange(len(changed) + 1), rng.randrange(4)
        if kind == 0:
            changed[at : at + 1] = rng.randbytes(1)
        elif kind == 1:
            changed[at:at] = rng.choice((b"\0", b"\r\n", b"\n", b"\r", b" ", b":", b",", b'"', b"\xff", b"\t"))
        elif kind == 2:
            changed[at:at] = changed[at : at + rng.randrange(20)]
        else:
            del changed[at : at + rng.randrange(1, 4)]
    return bytes(changed)


def oversized_body(rng: Random) -> bytes:
    return b'{"a": "%b"}' % (b"x" * (MAX_BODY_BYTES + rng.choice((-9, -8, 1, 100_000))))
