"""Owns verifying signatures of stored events again: rows come in on stdin, a word for each goes out on stdout, both line by line.

A line is JSON: tenant, source, body (base64, the whole body that was signed), scheme, key_id, signature_headers, signed_url,
content_type, received_ms. The word is one of

    valid        the key that was believed then is still among the source's, and made this signature
    invalid      it is, and did not: body, headers or signature are not what was received
    key_gone     the source, its scheme or that key is no longer in the settings, so nobody can tell
    unsigned     nothing was signed: the source was set up so, or the event was appended by hand

Times are checked against the time of receipt. Run as `python -m ingest.verify_again` by whoever reads the archive.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from infra.settings import load_settings
from ingest.headers import Headers
from ingest.request import Request
from ingest.signatures import verify
from ingest.sources import Source, Sources
from schemas.errors import Refused
from schemas.event import from_epoch_ms

VALID, INVALID, KEY_GONE, UNSIGNED = "valid", "invalid", "key_gone", "unsigned"


def word_for(row: Mapping[str, Any], *, sources: Sources) -> str:
    """Pure."""
    if not row["key_id"]:
        return UNSIGNED
    source = sources.by_route.get((row["tenant"], row["source"]))
    keys = [key for key in source.secrets if key.key_id == row["key_id"]] if source else []
    if source is None or not keys or source.scheme.name != row["scheme"]:
        return KEY_GONE
    try:
        verify(source.scheme, request=request_of(row, source=source), secrets=keys, now=from_epoch_ms(row["received_ms"]))
    except Refused:
        return INVALID
    return VALID


def request_of(row: Mapping[str, Any], *, source: Source) -> Request:
    """The request as it was signed, of what was kept of it."""
    headers = {"content-type": row["content_type"] or "", **(row["signature_headers"] or {})}
    raw = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    url, _, query = (row["signed_url"] or "").partition("?")
    return Request(Headers(raw), base64.b64decode(row["body"]), query=query, public_url=url or source.public_url)


def main() -> None:
    sources = Sources.from_settings(load_settings())
    for line in sys.stdin.buffer:
        sys.stdout.write(word_for(orjson.loads(line), sources=sources) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
