"""The schemes that belong to no one provider: standards, and what a source's own settings describe."""

from __future__ import annotations

from dataclasses import replace

from ingest.scheme import Digest, Header, Items, Member, Part, Scheme, Within

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

SVIX = replace(
    STANDARD_WEBHOOKS,
    name="svix",
    documentation="The tests of Svix's libraries: Standard Webhooks under headers of its own. Clerk, Resend and others send through it.",
    signature=Header("svix-signature"),
    timestamp=Header("svix-timestamp"),
    delivery_id=(Header("svix-id"),),
)

AWS_SNS = Scheme(
    name="aws-sns",
    documentation="The tests of Amazon's SNS validator, signature version 2. Needs `topics`; secrets are certificates, or are fetched.",
    confirmed=True,
    signature=Member("Signature"),
    encoding="base64",
    algorithm="rsa-sha256",
    secret_form="certificate",
    signed=(Part.NOTIFICATION,),
    namespace="sns",
    event_type=(Member("Type"),),
    delivery_id=(Member("MessageId"),),
    repository="TopicArn",
    stored_headers=("x-amz-sns-",),
    handshake="confirm-subscription",
)

AWS_SNS_V1 = replace(
    AWS_SNS,
    name="aws-sns-v1",
    documentation="Signature version 1, with SHA-1: what a topic sends unless it is set to version 2. Prefer `aws-sns`.",
    algorithm="rsa-sha1",
)

CLOUDEVENTS = Scheme(
    name="cloudevents",
    documentation="CloudEvents over HTTP, as Azure Event Grid sends them: nothing is signed, a token stands in `Authorization`.",
    signature=Header("authorization"),
    prefix="Bearer ",
    algorithm="token",
    event_type=(Header("ce-type"), Member("type")),
    delivery_id=(Within(Header("ce-source"), Header("ce-id")), Within(Member("source"), Member("id")), Digest()),
    repository="subject",
    stored_headers=("ce-",),
    handshake="allow-origin",
)

GENERIC = Scheme(
    name="generic",
    documentation="What the source's settings say; its secret is used as it stands.",
    confirmed=True,
    signature=Header(""),
)
"""Nothing is known about this sender but what the source's settings say; `sources.py` fills it in."""

STANDARDS = (STANDARD_WEBHOOKS, STANDARD_WEBHOOKS_V1A, SVIX, AWS_SNS, AWS_SNS_V1, CLOUDEVENTS, GENERIC)
