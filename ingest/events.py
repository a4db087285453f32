"""Owns making an event of what is known about a request: its pieces, its proof, and when it came. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Protocol

from ingest.sources import Source
from ingest.splitting import Piece
from schemas.event import VERSION, AuthContext, Priority, StreamEvent, assembled, assembled_auth


class Believed(Protocol):
    """Why a request was believed, as a `Proof` says it."""

    @property
    def key_id(self) -> str: ...

    @property
    def signature_headers(self) -> dict[str, str]: ...

    @property
    def signed_url(self) -> str: ...


UNSIGNED = "unsigned"
"""What stands for the scheme in an event that nobody signed."""


def event_of(
    source: Source, *, event_id: str, piece: Piece, priority: Priority, received_at: datetime, proof: AuthContext, traceparent: str = ""
) -> StreamEvent:
    described, payload = piece.described, piece.payload
    # Every value is made or checked here, as the model would check it; a test holds the two against each other.
    return assembled(
        {
            "version": VERSION,
            "id": event_id,
            "tenant_id": source.tenant,
            "source": source.name,
            "event_type": described.event_type,
            "repository": described.repository,
            "delivery_id": described.delivery_id,
            "key": described.key,
            "priority": priority,
            "timestamp": received_at,
            "payload": payload,
            "body_sha256": hashlib.sha256(payload).hexdigest(),
            "content_type": described.content_type,
            "headers": described.headers,
            "auth_context": proof,
            "traceparent": traceparent,
            "part": piece.part,
            "flags": piece.flags,
            "retry_count": 0,
        }
    )


def auth_context(source: Source, *, proof: Believed, verified_at: datetime, remote_address: str) -> AuthContext:
    return assembled_auth(auth_values(source, proof=proof, verified_at=verified_at, remote_address=remote_address))


def auth_values(source: Source, *, proof: Believed, verified_at: datetime, remote_address: str) -> dict[str, object]:
    """What an `AuthContext` has."""
    return {
        "scheme": UNSIGNED if source.is_unsigned else source.scheme.name,
        "key_id": proof.key_id,
        "signature_headers": proof.signature_headers,
        "signed_url": proof.signed_url,
        "verified_at": verified_at,
        "remote_address": remote_address,
    }
