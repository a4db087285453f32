"""Owns the schemes: how each kind of sender signs and names what it sends, as data.

A new provider is one record in `SCHEMES` and its vectors in `tests/vectors/<name>.json`; `signatures.py` and
`describe.py` do what the record says, and `send.py` signs from the same record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from infra.settings import LEAST_SECRET_BYTES

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way of signing an HTTP request with a shared secret. Header names are lower-case."""

    name: str
    signature_header: str
    prefix: str = ""
    """What stands in the header before the signature."""
    encoding: Literal["hex", "base64"] = "hex"
    algorithm: Literal["sha256", "sha512", "sha1"] = "sha256"
    namespace: str = ""
    """The first part of every event type; empty: the source's name."""
    event_type_header: str = ""
    """Empty: every event of the source is `<namespace>.received`."""
    action: str = ""
    """The member of a JSON body that refines the type, as `opened` in `github.pull_request.opened`."""
    delivery_id_header: str = ""
    """Empty: the sender does not name its deliveries, and duplicates are not recognised."""
    repository: str = ""
    """Where in a JSON body the subject stands, dotted; empty: the events have none."""
    key: str = ""
    """Where in a JSON body the ordering key stands, dotted; empty: no order is asked for."""
    demands_json: bool = False
    """A body that is no JSON object is refused; otherwise it is stored, whatever it is."""
    form_field: str = ""
    """The field of a form-encoded body that holds the JSON; the signature is over the form all the same."""
    stored_headers: str = ""
    """Headers that start with this are stored with the event, beside those named above."""
    least_secret_bytes: int = LEAST_SECRET_BYTES
    max_body_bytes: int | None = None
    """The provider's own cap; None: that of the receiver."""


GITHUB = Scheme(
    name="github",
    signature_header="x-hub-signature-256",  # The older X-Hub-Signature is SHA-1, and is never looked at.
    prefix="sha256=",
    namespace="github",
    event_type_header="x-github-event",
    action="action",
    delivery_id_header="x-github-delivery",
    repository="repository.full_name",
    key="repository.full_name",
    demands_json=True,
    form_field="payload",
    stored_headers="x-github-",
    max_body_bytes=25 * MIB,
)

GENERIC = Scheme(name="generic", signature_header="")
"""Nothing is known about this sender but what the source's settings say; `sources.py` fills it in."""

SCHEMES: Mapping[str, Scheme] = MappingProxyType({scheme.name: scheme for scheme in (GITHUB, GENERIC)})
