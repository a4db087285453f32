"""Owns `QuarantinedRequest`: a request of a configured source that was refused and kept aside, and why."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from schemas.event import Name


class QuarantinedRequest(BaseModel):
    """What the receiver was sent, but for the headers that carry a secret, and what it answered."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    id: str = ""
    """Shard and entry id, `2-1763316000000-0`: how operators name it; empty before it is stored."""
    event_id: str
    """The id that its event will have if it is released."""
    tenant_id: Name
    source: Name
    code: str
    """What the sender was told: `bad_signature`, `malformed_request`, `schema_mismatch`."""
    reason: str
    """Why, for us alone."""
    received_at: AwareDatetime
    remote_address: str = ""
    query: str = ""
    """Only where the scheme signs the address."""
    headers: dict[str, str] = Field(default_factory=dict)
    removed_headers: tuple[str, ...] = ()
    """The names of those that were not kept, because they carry a secret."""
    repeated_headers: tuple[str, ...] = ()
    """Those that came more than once; the first value is kept."""
    body: bytes = b""
    """The raw body, as it was sent."""
    state: str = "open"
    """`open`; `released` after an operator let it in; `discarded` after one decided to leave it."""
    decided_by: str = ""
    decided_at: AwareDatetime | None = None
    because: str = ""
