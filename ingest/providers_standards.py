"""The schemes that belong to no one provider: standards, and what a source's own settings describe."""

from __future__ import annotations

from dataclasses import replace

from ingest.scheme import Header, Items, Member, Part, Scheme

STANDARD_WEBHOOKS = Scheme(
    name="standard-webhooks",
    documentation="The Standard Webhooks specification and its reference libraries. Secrets are `whsec_` and base64.",
    confirmed=True,
    signature=Header("webhook-signature"),
    items=Items(separator=" ", wanted="v1", pair=","),
    encoding="base64",
    timestamp=Header("webhook-timestamp"),
    signed=(Part.ID, ".", Part.TIMESTAMP, ".", Part.BODY),
    secret_form="base64",
    least_secret_bytes=24,
    event_type=(Member("type"),),
    delivery_id=(Header("webhook-id"),),
)

STANDARD_WEBHOOKS_V1A = replace(
    STANDARD_WEBHOOKS,
    name="standard-webhooks-v1a",
    documentation="The same with Ed25519. The source's secret is the sender's public key, `whpk_` and base64.",
    items=Items(separator=" ", wanted="v1a", pair=","),
    algorithm="ed25519",
    secret_form="ed25519-base64",
)

GENERIC = Scheme(
    name="generic",
    documentation="What the source's settings say; its secret is used as it stands.",
    confirmed=True,
    signature=Header(""),
)
"""Nothing is known about this sender but what the source's settings say; `sources.py` fills it in."""

STANDARDS = (STANDARD_WEBHOOKS, STANDARD_WEBHOOKS_V1A, GENERIC)
