"""The least that a durable receiver could do: verify, parse, hash, one XADD by a script, answer when it is synced.

It knows no duplicates, numbers, limits, spool or sources, and makes nothing of an error: what it is slower than a receiver that keeps
nothing is what keeping costs on this machine, and what ours is slower than it is what our promises cost. `python -m ... PORT SECRET`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
import uuid

import hiredis
import orjson
import uvicorn
from redis.connection import parse_url
from starlette.types import Receive, Scope, Send

from infra.streams.wire import Wire
from tests.benchmarks.peers.server import url

STREAM = "least"
SCRIPT = "return redis.call('XADD', KEYS[1], '*', unpack(ARGV))"
SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
TIMEOUT_S = 5.0


class Least:
    """An ASGI application on one connection to the log, which its first request makes."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._wire: Wire | None = None
        self._connecting = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chunks, more = [], True
        while more:
            message = await receive()
            chunks.append(message.get("body", b""))
            more = message.get("more_body", False)
        status, answer = await self._kept(dict(scope["headers"]), b"".join(chunks))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _kept(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, bytes]:
        digest = hmac.digest(self._secret, body, "sha256").hex().encode()
        if not hmac.compare_digest(b"sha256=" + digest, headers.get(b"x-hub-signature-256", b"")):
            return 401, b"{}"
        event_id, content = str(uuid.uuid4()), orjson.loads(body)
        fields = (
            "id", event_id, "type", headers[b"x-github-event"], "repository", content["repository"]["full_name"],
            "delivery_id", headers[b"x-github-delivery"], "payload", body, "body_sha256", hashlib.sha256(body).hexdigest(),
        )  # fmt: skip
        wire = self._wire or await self._connection()
        reply = await wire.send(("EVALSHA", SHA, 1, STREAM, *fields))
        return (503, b"{}") if isinstance(reply, hiredis.ReplyError) else (202, b'{"event_id":"%b"}' % event_id.encode())

    async def _connection(self) -> Wire:
        async with self._connecting:
            if self._wire is None:
                self._wire = await connect(SCRIPT)
        return self._wire


async def connect(script: str) -> Wire:
    """To the log of the benchmark, which then knows the script."""
    where = parse_url(url())  # type: ignore[no-untyped-call]
    _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(TIMEOUT_S), where["host"], where["port"])
    await wire.send(("AUTH", where["password"]))
    await wire.send(("SCRIPT", "LOAD", script))
    return wire


if __name__ == "__main__":
    uvicorn.run(
        Least(sys.argv[2].encode()), port=int(sys.argv[1]), http="httptools", loop="uvloop", ws="none", lifespan="off", access_log=False,
        log_level="warning", proxy_headers=False, server_header=False,
    )  # fmt: skip
