"""What any receiver in Python comes to that keeps what our log promises: everything about a request in one function, over one script.

It verifies, parses and hashes, and appends by our own `append.lua`, sixteen events to a call over four connections: duplicates are found,
events numbered and counted, and synced before the answer. It has one source, no ASGI, limits, deadlines, spool or telemetry, and makes
nothing of an error. What ours is slower than it is what could be gained; what it is slower than a receiver that keeps nothing could
not, but by another log or another language. `python -m ... PORT SECRET`.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import hmac
import secrets
import sys
import time
import zlib
from typing import Any, cast

import httptools
import orjson
import uvloop

from infra.clock import uuid_text
from infra.settings import LogSettings
from infra.streams.framing import Framed, framed
from infra.streams.gathering import MOST_EVENTS
from infra.streams.keys import Keys
from infra.streams.lanes import LANES
from infra.streams.scripts import Argument, script
from infra.streams.seen import SeenWindow, bucket_of
from infra.streams.wire import Wire
from tests.benchmarks.least_durable import connect

LOG = LogSettings()
KEYS, WINDOW = Keys(LOG.prefix, LOG.shards), SeenWindow.parse(LOG.window)
TARGET = b"/hooks/bench/source-0"
KEPT = (b"content-type", b"user-agent", b"x-github-delivery", b"x-github-event")


class Log:
    """Gathers events of a shard, and sends them together."""

    def __init__(self, wires: list[Wire], incarnations: list[bytes]) -> None:
        self._wires = wires
        self._next = 0
        now_ms, shards = time.time_ns() // 1_000_000, KEYS.all_shards()
        at = [[KEYS.ledger(shard), *KEYS.event_streams(shard)] for shard in shards]
        stems = [WINDOW.stems(KEYS, shard=shard, now_ms=now_ms) for shard in shards]
        self._heads: list[tuple[Argument, ...]] = [(*at[shard], incarnations[shard], WINDOW.ttl_s, 0, 0, *stems[shard]) for shard in shards]
        self._gathered: list[tuple[list[bytes], list[asyncio.Transport]]] = [([], []) for _ in shards]

    def append(self, shard: int, *parts: Argument, sender: asyncio.Transport) -> None:
        if not any(senders for _, senders in self._gathered):
            asyncio.get_running_loop().call_soon(self._send_all)
        frames, senders = self._gathered[shard]
        frames += map(framed, parts)
        senders.append(sender)
        if len(senders) >= MOST_EVENTS:
            self._send(shard)

    def _send_all(self) -> None:
        for shard, (_, senders) in enumerate(self._gathered):
            if senders:
                self._send(shard)

    def _send(self, shard: int) -> None:
        (frames, senders), self._gathered[shard] = self._gathered[shard], ([], [])
        self._next = (self._next + 1) % len(self._wires)
        call = self._wires[self._next].send(("EVALSHA", script("append").sha, 5, *self._heads[shard], Framed(len(frames), frames)))
        call.add_done_callback(lambda call: _answer(senders, call.result()))


def _answer(senders: list[asyncio.Transport], replies: list[Any]) -> None:
    for sender, reply in zip(senders, replies, strict=True):  # An error is no list: nobody is answered, and nothing measured.
        body = b'{"event_id":"%b","duplicate":false}' % uuid_text(reply[:16]).encode()
        sender.write(b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


class Flat(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, log: Log, secret: bytes) -> None:
        self._log = log
        self._secret = secret
        self._parser = httptools.HttpRequestParser(self)
        self._target, self._headers, self._body = b"", list[tuple[bytes, bytes]](), list[bytes]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, target: bytes) -> None:
        self._target, self._headers, self._body = target, [], []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        headers, body = dict(self._headers), b"".join(self._body)
        signature = headers.get(b"x-hub-signature-256", b"")
        digest = b"sha256=" + hmac.digest(self._secret, body, "sha256").hex().encode()
        if self._target != TARGET or not hmac.compare_digest(digest, signature):
            self._transport.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            return
        now_ms, content, sha256 = time.time_ns() // 1_000_000, orjson.loads(body), hashlib.sha256(body).hexdigest()
        random, delivery_id = secrets.token_bytes(34), headers[b"x-github-delivery"]
        id_bytes = now_ms.to_bytes(6) + bytes((0x70 | random[0] & 15, random[1], 0x80 | random[2] & 63)) + random[3:10]
        repository = content["repository"]["full_name"]
        marker = hashlib.blake2b(b"bench\0source-0\0" + delivery_id, digest_size=12).digest()
        kept = {name.decode(): value.decode("latin-1") for name, value in self._headers if name in KEPT}
        proof = {"scheme": "github", "key_id": "bench", "signature_headers": {"x-hub-signature-256": signature.decode()}, "signed_url": ""}
        self._log.append(
            zlib.crc32(f"bench\0source-0\0{repository}".encode()) % KEYS.shards,
            b"%b%b%b20%d" % (marker, id_bytes, bytes.fromhex(sha256[:16]), bucket_of(marker)),
            1, uuid_text(id_bytes), "bench", "source-0", f"github.{headers[b'x-github-event'].decode()}", repository, delivery_id,
            repository, "default", now_ms, body, sha256, headers[b"content-type"], orjson.dumps(kept),
            orjson.dumps(proof | {"verified_at": now_ms, "remote_address": "127.0.0.1"}),
            f"00-{random[10:26].hex()}-{random[26:].hex()}-01",
            sender=self._transport,
        )  # fmt: skip


async def serve(port: int, secret: bytes) -> None:
    loop, wires = asyncio.get_running_loop(), [await connect(script("append").text) for _ in range(LANES)]
    begun = []
    for shard in KEYS.all_shards():
        at = (KEYS.ledger(shard), KEYS.registry(shard))
        begun.append((await wires[0].send(("EVAL", script("begin").text, 2, *at, f"flat{shard:04d}", KEYS.shards)))[1])
    log = Log(wires, begun)
    gc.freeze()
    server = await loop.create_server(lambda: Flat(log, secret), "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2].encode()))
