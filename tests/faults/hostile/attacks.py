"""Owns the attacks: what goes on the wire, and what the receiver may make of it. `drawing.py` says which of them come.

An attack with `body` is genuinely signed: if it is accepted, exactly that body is stored. One without must never be accepted.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from random import Random

from ingest.posting import SignedPost
from ingest.scheme import Header, Member
from tests.faults.hostile.bodies import NASTY_TEXTS, mutated, nasty_body, oversized_body
from tests.faults.hostile.sources import MAX_BODY_BYTES, Target
from tests.faults.hostile.spoiling import SPOILINGS, Spoiling, signature_of, with_value


@dataclass(frozen=True, slots=True)
class Attack:
    """One connection's worth of bytes."""

    kind: str
    data: bytes
    body: bytes | None = None
    must_be_accepted: bool = False
    ends: str = "answer"
    """`answer`: wait for one; `leave`: go away at once; `hold`: send no more, and wait until the receiver ends it."""


def wire(post: SignedPost, *, extra: tuple[bytes, ...] = (), method: bytes = b"POST", path: bytes = b"", length: bool = True) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method, path or post.path.encode()), b"Host: x"]
    lines += [b"%b: %b" % (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in post.headers.items()]
    lines += [b"Content-Length: %d" % len(post.body)] if length else []
    return b"\r\n".join([*lines, *extra, b"", b""]) + post.body


def genuine(rng: Random, target: Target) -> Attack:
    post = target.signed(number=rng.randrange(10**6))
    return Attack("genuine", wire(post), post.body, must_be_accepted=True)


def genuine_junk(rng: Random, target: Target) -> Attack:
    post = target.signed(nasty_body(rng))
    types = (
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "",
        "a" * 300,
        "\xff",
    )
    post.headers["content-type"] = rng.choice(types)
    return Attack("signed junk", wire(post), target.storable(post.body))


def forged(rng: Random, target: Target) -> Attack:
    post = target.forged(None if rng.random() < 0.5 else nasty_body(rng))
    return Attack("forged", wire(post))


def other_body(rng: Random, target: Target) -> Attack:
    post = target.signed(number=rng.randrange(10**6))
    body = mutated(post.body, rng=rng) + b" "
    is_proven = target.stands_for(body, sent=post.body)
    return Attack("another body", wire(SignedPost(post.path, post.headers, body)), body if is_proven else None)


def broken_proof(rng: Random, target: Target) -> Attack:
    """A genuine request, of which a header that proves something is spoilt."""
    if not target.proving:  # It signs within the body.
        return spoilt_signature(rng, target, spoiling=rng.choice(list(SPOILINGS.values())))
    post = target.signed(number=rng.randrange(10**6))
    name = rng.choice(sorted(target.proving))
    return _spoilt(post, place=Header(name), value=rng.choice(list(SPOILINGS.values()))(rng, post.headers[name]))


def spoilt_signature(rng: Random, target: Target, *, spoiling: Spoiling) -> Attack:
    """A genuine request but for its signature, in a header or in the body."""
    post, scheme = target.signed(number=rng.randrange(10**6)), target.source.scheme
    return _spoilt(post, place=scheme.signature, value=spoiling(rng, signature_of(scheme, post=post)))


def _spoilt(post: SignedPost, *, place: Header | Member, value: str | None) -> Attack:
    changed, lines = with_value(post, place=place, value=value)
    return Attack("spoilt signature", wire(changed, extra=lines))


def doubled_proof(rng: Random, target: Target) -> Attack:
    if not target.proving:
        return forged(rng, target)
    post = target.signed(number=rng.randrange(10**6))
    name = rng.choice(sorted(target.proving))
    extra = b"%b: %b" % (name.encode(), rng.choice((post.headers[name], target.forged().headers[name], "")).encode())
    return Attack("two signatures", wire(post, extra=(extra,)))


def nasty_header(rng: Random, target: Target) -> Attack:
    post = target.signed(number=rng.randrange(10**6))
    name = rng.choice(
        [*sorted(post.headers), "x-forwarded-for", "traceparent", "authorization", "cookie", "content-encoding", "expect", "range"]
    )
    value = rng.choice(NASTY_TEXTS).encode("utf-8", "surrogatepass")
    post.headers.pop(name, None)
    return Attack("nasty header", wire(post, extra=(b"%b: %b" % (name.encode(), value),)), post.body)


def large_head(rng: Random, target: Target) -> Attack:
    post = target.signed(number=1)
    shapes = (
        (b"X-Long: " + b"x" * rng.choice((17_000, 70_000, 300_000)),),
        tuple(b"X-%d: 1" % number for number in range(rng.choice((65, 300, 3000)))),
    )
    return Attack("large head", wire(post, extra=rng.choice(shapes)))


SMUGGLED = b"GET /hooks/demo/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


def smuggling(rng: Random, target: Target) -> Attack:
    """Lengths and encodings that two readers would take differently; a request hides where one of them sees the next one."""
    post = target.signed(number=rng.randrange(10**6))
    size = len(post.body)
    lines = rng.choice(
        (
            (b"Content-Length: %d" % size, b"Transfer-Encoding: chunked"),
            (b"Transfer-Encoding: chunked", b"Content-Length: %d" % size),
            (b"Content-Length: %d" % size, b"Content-Length: %d" % (size + 1)),
            (b"Content-Length: %d" % size, b"Content-Length: %d" % size),
            (b"Content-Length: %d, %d" % (size, size),), (b"Content-Length: +%d" % size,), (b"Content-Length: -%d" % size,),
            (b"Content-Length: 0%d" % size,), (b"Content-Length: 0x%x" % size,), (b"Content-Length: %d " % size,),
            (b"Content-Length:\t%d" % size,),
            (b"Content-Length : %d" % size,), (b"Content-Length: %d" % 10**25,), (b"Content-Length: 1e3",), (b"Content-Length:",),
            (b"Content-Length: %d" % size, b"Transfer-Encoding: xchunked"), (b"Transfer-Encoding: chunked, identity",),
            (b"Transfer-Encoding: identity",),
            (b"Transfer-Encoding : chunked",), (b"Transfer-Encoding: \x0bchunked",), (b"Transfer-Encoding:\r\n chunked",),
            (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",),
            (b"Content-Length: %d" % size, b" folded: 1"), (b"Content-Length: %d" % size, b"X: 1\r\n\tfolded"),
            (b"Content-Length: %d\nX-Bare: 1" % size,),
            (b"Content-Length: %d\rX-Bare: 1" % size,), (b"Content-Length: %d" % size, b"X\0: 1"),
            (b"Content-Length: %d" % size, b": no name"),
            (b"Content-Length: %d" % size, b"Connection: Upgrade", b"Upgrade: h2c"),
            (b"Content-Length: %d" % size, b"Expect: 100-continue, 200-ok"),
            (),
        )
    )  # fmt: skip
    return Attack("smuggling", wire(post, extra=lines, length=False) + rng.choice((b"", SMUGGLED, b"0\r\n\r\n" + SMUGGLED)), post.body)


def chunked(rng: Random, target: Target) -> Attack:
    """The body in chunks, some of which are no chunks."""
    post = target.signed(number=rng.randrange(10**6))
    head = wire(SignedPost(post.path, post.headers, b""), extra=(b"Transfer-Encoding: chunked",), length=False)
    cut, body = rng.randrange(len(post.body)), post.body
    good = b"%x\r\n%b\r\n%X\r\n%b\r\n" % (max(1, cut), body[: max(1, cut)], len(body) - max(1, cut), body[max(1, cut) :])
    whole = b"%x\r\n%b\r\n" % (len(body), body)
    if rng.random() < 0.3:
        return Attack("in chunks", head + good + b"0\r\n\r\n", body, must_be_accepted=True)
    tricks = (
        whole + b"0\r\nX-Trailer: 1\r\n\r\n", b"%x;a=b;c\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        b"%x;%b\r\n%b\r\n0\r\n\r\n" % (len(body), b"x" * 20_000, body),
        b"%x \r\n%b\r\n0\r\n\r\n" % (len(body), body), b"0%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        b"%x\n%b\n0\n\n" % (len(body), body), b"0\r\n\r\n" + whole,
        b"ffffffffffffffff\r\n" + body, b"fffffffffffffffff\r\n" + body, b"-1\r\n" + body, b"0x10\r\n" + body, b"\r\n" + whole,
        b"zz\r\n" + whole,
        b"%x\r\n%b" % (len(body) + 1, whole), b"%x\r\n%bXX0\r\n\r\n" % (len(body), body),
        whole + b"0\r\n" + b"X-T: 1\r\n" * 3000 + b"\r\n",
        b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n", b"%x\r\n" % (MAX_BODY_BYTES + 1) + b"x" * (MAX_BODY_BYTES + 1),
    )  # fmt: skip
    return Attack("chunk tricks", head + rng.choice(tricks), body)


PATHS = (
    "/", "//", "/hooks", "/hooks/", "/hooks//", "/hooks///", "//hooks/demo/github", "/hooks//demo/github", "/hooks/demo//github",
    "/hooks/demo/github/", "/hooks/demo",
    "/hooks/demo/github/x", "/hooks/../hooks/demo/github", "/hooks/demo/../demo/github", "/hooks/%64emo/github",
    "/hooks/demo/%67ithub", "/hooks/demo%2fgithub",
    "/hooks/demo/github%00", "/hooks/demo/github;a=b", "/hooks/demo/github.", "/hooks/demo/github%20", "/HOOKS/demo/github",
    "/hooks/DEMO/github", "/hooks/demo/%2e%2e/github",
    "/hooks/{0}/github", "/hooks/demo:github/x", "/hooks/*/github", "/hooks/d\u0435mo/github", "/hooks/demo\\github",
    "/hooks/" + "a" * 5000 + "/github", "/hooks/demo/" + "%" * 50, "/metrics", "/healthz/", "/readyz/../hooks/demo/github", "*",
    "", "/hooks/demo/github\0", "/hooks/\xff/\xfe",
)  # fmt: skip
METHODS = (
    b"GET",
    b"HEAD",
    b"OPTIONS",
    b"PUT",
    b"DELETE",
    b"PATCH",
    b"TRACE",
    b"CONNECT",
    b"PROPFIND",
    b"post",
    b"POST\0",
    b"P" * 3000,
    b"",
    b"QUERY",
    b"PRI",
)


def odd_path(rng: Random, target: Target) -> Attack:
    post = target.signed(number=1)
    path = rng.choice(
        (*PATHS, "http://x" + target.path, target.path + "#a", target.path + "?secret=x", target.path + "?" + "a" * 3000)
    ).encode("utf-8")
    # A query, a fragment or an absolute address do not change whose request it is.
    is_ours = path.partition(b"?")[0].partition(b"#")[0] in (target.path.encode(), b"http://x" + target.path.encode())
    return Attack("odd path", wire(post, path=path or b" "), post.body if is_ours else None)


def evil_tenant(rng: Random, target: Target) -> Attack:
    post = target.signed(number=1)
    name = rng.choice(NASTY_TEXTS).encode("utf-8", "surrogatepass")
    path = b"/hooks/%b/%b" % ((name, target.source.name.encode()) if rng.random() < 0.5 else (b"demo", name))
    return Attack("evil name", wire(post, path=path))


def other_route(rng: Random, target: Target) -> Attack:
    """Signed for one source, sent to another; `packed` and `github` share their secret, so that one is let be."""
    post = target.forged(number=rng.randrange(10**6))
    return Attack("other route", wire(post, path=rng.choice((b"/hooks/demo/github", b"/hooks/demo/generic"))))


def odd_method(rng: Random, target: Target) -> Attack:
    return Attack("odd method", wire(target.signed(number=1), method=rng.choice(METHODS)))


def garbage(rng: Random, _: Target) -> Attack:
    fixed = (
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 64,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"HELO x\r\n\r\n",
        b"\r\n" * 50 + b"x\r\n\r\n",
        b"EVAL 1\r\n\r\n",
    )
    return Attack("no HTTP", rng.choice((*fixed, rng.randbytes(200) + b"\r\n\r\n")), ends="hold")


def mutated_head(rng: Random, target: Target) -> Attack:
    post = target.signed(number=rng.randrange(10**6))
    head, _, body = wire(post).partition(b"\r\n\r\n")
    return Attack("mutated head", mutated(head, rng=rng) + b"\r\n\r\n" + body, post.body)


def too_large(rng: Random, target: Target) -> Attack:
    post = target.signed(oversized_body(rng))
    return Attack("too large", wire(post), target.storable(post.body) if len(post.body) <= MAX_BODY_BYTES else None)


def compressed(rng: Random, target: Target) -> Attack:
    content = rng.choice((target.signed(number=1).body, b"\0" * 2_000_000, nasty_body(rng)))
    packed = gzip.compress(content)
    post = target.signed(rng.choice((packed, packed[: len(packed) // 2], gzip.compress(packed), packed + b"x", content[:1000])))
    encoding = rng.choice((b"gzip", b"GZIP", b"gzip, gzip", b"x-gzip", b"deflate", b"br", b"identity", b"\xff", b""))
    return Attack("compressed", wire(post, extra=(b"Content-Encoding: " + encoding,)), target.storable(post.body))


def cut_off(rng: Random, target: Target) -> Attack:
    """The sender goes away somewhere in the middle."""
    post = target.signed(number=rng.randrange(10**6))
    data = wire(post)
    return Attack("cut off", data[: rng.randrange(len(data))], ends="leave")


def slow(rng: Random, target: Target) -> Attack:
    data = wire(target.signed(number=1))
    return Attack("slow", data[: rng.randrange(1, len(data))], ends="hold")
