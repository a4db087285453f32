"""Owns what a request is stored as: one event, or of a source that splits bodies one for each element. Pure.

Each part is the slice of the body that it was sent as (`slices.py`), with a type and an id of its own where the sender gives it any.
A body that cannot be split is kept whole and flagged, never refused: what is not an array, has no elements or too many of them, or
was compressed, so that no slice of what was signed would be readable.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from infra.streams.stream import MOST_PARTS
from ingest.describe import Description, content_of, describe, describe_item
from ingest.request import Request
from ingest.slices import Slice, slices_of
from ingest.sources import Source
from schemas.event import Part

NOT_SPLIT = "not_split"


class Piece(NamedTuple):
    """What becomes one event."""

    described: Description
    payload: bytes
    part: Part | None = None
    flags: tuple[str, ...] = ()


def pieces_of(source: Source, *, request: Request, plain: Request) -> list[Piece]:
    """The pieces of a verified request, whose body without its encoding is that of `plain`; raises MalformedRequest, SchemaMismatch."""
    described = describe(source.scheme, request=plain)
    if not source.splits:
        return [Piece(described, request.body, flags=_remarks(source, plain=plain, described=described))]
    slices = _slices(request, plain=plain)
    if not slices:
        return [Piece(described, request.body, flags=(NOT_SPLIT, *_remarks(source, plain=plain, described=described)))]
    digest = hashlib.sha256(request.body).hexdigest()
    return [
        _part(source, plain=plain, whole=described, cut=cut, part=_place(cut, number=number, of=len(slices), digest=digest))
        for number, cut in enumerate(slices, start=1)
    ]


def _place(cut: Slice, *, number: int, of: int, digest: str) -> Part:
    return Part(number=number, of=of, body_sha256=digest, before=cut.before, after=cut.after)


def _slices(request: Request, *, plain: Request) -> list[Slice]:
    """None of them where the body is to be kept whole."""
    if plain is not request:
        return []
    try:
        slices = slices_of(request.body)
    except ValueError:
        return []
    return slices if len(slices) <= MOST_PARTS else []


def _part(source: Source, *, plain: Request, whole: Description, cut: Slice, part: Part) -> Piece:
    content = plain.json
    item = content[part.number - 1] if isinstance(content, list) else None
    described = describe_item(source.scheme, request=plain, item=item, whole=whole, number=part.number)
    flags = () if source.schemas is None else source.schemas.flags_for(item, event_type=described.event_type)
    return Piece(described, cut.payload, part, flags)


def _remarks(source: Source, *, plain: Request, described: Description) -> tuple[str, ...]:
    if source.schemas is None:
        return ()
    # Of a form that holds JSON the schema describes the JSON.
    content = content_of(source.scheme, request=plain) if source.scheme.reads_body else plain.json
    return source.schemas.flags_for(content, event_type=described.event_type)
