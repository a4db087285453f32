"""The schemes of those who sell, bill and look after customers."""

from __future__ import annotations

from dataclasses import replace

from ingest.scheme import BODY_ONLY, Digest, Header, Item, Items, Member, Part, Scheme

STRIPE = Scheme(
    name="stripe",
    documentation="The tests of Stripe's libraries. `v0` is for Stripe's tests, and is never looked at.",
    confirmed=True,
    signature=Header("stripe-signature"),
    items=Items(separator=",", wanted="v1"),
    timestamp=Item("t"),
    signed=(Part.TIMESTAMP, ".", Part.BODY),
    namespace="stripe",
    event_type=(Member("type"),),
    delivery_id=(Member("id"), Digest()),
    repository="data.object.id",
    key="data.object.id",
)

SHOPIFY = Scheme(
    name="shopify",
    documentation="The tests of Shopify's libraries. A new secret is used after up to an hour: keep both. 8 failures end a subscription.",
    confirmed=True,
    signature=Header("x-shopify-hmac-sha256"),
    encoding="base64",
    namespace="shopify",
    event_type=(Header("x-shopify-topic"),),
    delivery_id=(Header("x-shopify-webhook-id"), Digest()),
    repository="admin_graphql_api_id",
    key="id",
    stored_headers=("x-shopify-shop-domain", "x-shopify-event-id", "x-shopify-triggered-at", "x-shopify-api-version"),
)

PADDLE = Scheme(
    name="paddle",
    documentation="The tests of Paddle's libraries. Of Paddle Billing; the libraries allow 5 s, which a queue on the way would use up.",
    confirmed=True,
    signature=Header("paddle-signature"),
    items=Items(separator=";", wanted="h1"),
    timestamp=Item("ts"),
    signed=(Part.TIMESTAMP, ":", Part.BODY),
    namespace="paddle",
    event_type=(Member("event_type"),),
    delivery_id=(Member("event_id"), Digest()),
    repository="data.id",
    key="data.id",
    answered=200,
)

SQUARE = Scheme(
    name="square",
    documentation="The tests of Square's libraries. Needs `public_url` as the subscription has it. The older SHA-1 header is ignored.",
    confirmed=True,
    signature=Header("x-square-hmacsha256-signature"),
    encoding="base64",
    signed=(Part.URL, Part.BODY),
    namespace="square",
    event_type=(Member("type"),),
    delivery_id=(Member("event_id"), Digest()),
    repository="merchant_id",
    key="data.id",
    stored_headers=("square-retry-",),
)

HUBSPOT = Scheme(
    name="hubspot",
    documentation="HubSpot's page on validating requests, its third version, and the tests of its libraries. Needs `public_url`.",
    confirmed=True,
    signature=Header("x-hubspot-signature-v3"),
    encoding="base64",
    timestamp=Header("x-hubspot-request-timestamp"),
    timestamp_unit="ms",
    signed=(Part.METHOD, Part.PLAIN_URL, Part.BODY, Part.TIMESTAMP),
    namespace="hubspot",
    event_type=(Member("subscriptionType"),),
    delivery_id=(Member("eventId"), Digest()),
    repository="objectId",
    key="objectId",
    is_batch=True,
)

HUBSPOT_V2 = replace(
    HUBSPOT,
    name="hubspot-v2",
    documentation="HubSpot's second version, as the first with the address in front of the body. Needs `public_url`; prefer `hubspot`.",
    signature=Header("x-hubspot-signature"),
    encoding="hex",
    algorithm="sha256-plain",
    timestamp=None,
    signed=(Part.METHOD, Part.URL, Part.BODY),
    # A plain hash can be carried on without the secret, behind bytes that are in no JSON.
    demands_json=True,
)

HUBSPOT_V1 = replace(
    HUBSPOT_V2,
    name="hubspot-v1",
    documentation="HubSpot's first version: a hash that can be carried on past the end of the body, so only JSON passes. Prefer `hubspot`.",
    signed=BODY_ONLY,
)

ZENDESK = Scheme(
    name="zendesk",
    documentation="Zendesk's page on verifying webhooks. Triggers and automations send bodies that their authors write.",
    signature=Header("x-zendesk-webhook-signature"),
    encoding="base64",
    timestamp=Header("x-zendesk-webhook-signature-timestamp"),
    timestamp_unit="iso",
    signed=(Part.TIMESTAMP, Part.BODY),
    namespace="zendesk",
    event_type=(Member("type"),),
    delivery_id=(Header("x-zendesk-webhook-invocation-id"), Digest()),
    repository="subject",
    key="subject",
    stored_headers=("x-zendesk-webhook-id", "x-zendesk-account-id"),
)

INTERCOM = Scheme(
    name="intercom",
    documentation="Intercom's page on webhook notifications. HMAC with SHA-1, keyed with the app's client secret.",
    signature=Header("x-hub-signature"),
    prefix="sha1=",
    algorithm="sha1",
    namespace="intercom",
    event_type=(Member("topic"),),
    delivery_id=(Member("id"), Digest()),
    repository="data.item.id",
    key="data.item.id",
    handshake="answer-head",
)

TYPEFORM = Scheme(
    name="typeform",
    documentation="Typeform's page on securing webhooks. What follows `sha256=` is base64, not hex.",
    signature=Header("typeform-signature"),
    prefix="sha256=",
    encoding="base64",
    namespace="typeform",
    event_type=(Member("event_type"),),
    delivery_id=(Member("event_id"), Digest()),
    repository="form_response.form_id",
)

RAZORPAY = Scheme(
    name="razorpay",
    documentation="The tests of Razorpay's libraries. Keyed with the webhook's own secret, not with that of the API.",
    confirmed=True,
    signature=Header("x-razorpay-signature"),
    namespace="razorpay",
    event_type=(Member("event"),),
    delivery_id=(Header("x-razorpay-event-id"), Digest()),
    repository="account_id",
    key="payload.payment.entity.id",
)

SALES = (STRIPE, SHOPIFY, PADDLE, SQUARE, HUBSPOT, HUBSPOT_V2, HUBSPOT_V1, ZENDESK, INTERCOM, TYPEFORM, RAZORPAY)
