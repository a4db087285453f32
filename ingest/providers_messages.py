"""The schemes of those who carry messages: chat, calls, mail, video."""

from __future__ import annotations

from ingest.scheme import Digest, Header, Item, Items, Member, Part, Scheme

SLACK = Scheme(
    name="slack",
    documentation="Slack's page on verifying requests. Commands and interactions come as forms.",
    confirmed=True,
    signature=Header("x-slack-signature"),
    prefix="v0=",
    timestamp=Header("x-slack-request-timestamp"),
    signed=("v0:", Part.TIMESTAMP, ":", Part.BODY),
    namespace="slack",
    event_type=(Member("event.type"), Member("type")),
    delivery_id=(Member("event_id"), Member("trigger_id"), Digest()),
    repository="team_id",
    form_field="payload",
    stored_headers=("x-slack-retry-",),
    handshake="echo-challenge",
)

TWILIO = Scheme(
    name="twilio",
    documentation="Twilio's page on webhook security and the tests of its libraries. Needs `public_url`.",
    confirmed=True,
    signature=Header("x-twilio-signature"),
    encoding="base64",
    algorithm="sha1",
    signed=(Part.URL, Part.FORM),
    port_may_vary=True,
    namespace="twilio",
    event_type=(Member("MessageStatus"), Member("SmsStatus"), Member("CallStatus")),
    delivery_id=(Header("i-twilio-idempotency-token"), Digest()),
    repository="AccountSid",
    is_form=True,
)

MAILGUN = Scheme(
    name="mailgun",
    documentation="The tests of Mailgun's libraries. Only time and token are signed: another body under one token is flagged.",
    confirmed=True,
    signature=Member("signature.signature"),
    timestamp=Member("signature.timestamp"),
    # Mailgun warns of delays, and tries again after 5 minutes at the soonest; against replays there is the token.
    tolerance_s=15 * 60,
    signed=(Part.TIMESTAMP, Part.ID),
    namespace="mailgun",
    event_type=(Member("event-data.event"),),
    delivery_id=(Member("signature.token"),),
    repository="event-data.recipient",
    answered=200,
)

DISCORD = Scheme(
    name="discord",
    documentation="Discord's page on webhook events. The source's secret is the application's public key.",
    signature=Header("x-signature-ed25519"),
    algorithm="ed25519",
    secret_form="ed25519-hex",
    timestamp=Header("x-signature-timestamp"),
    signed=(Part.TIMESTAMP, Part.BODY),
    namespace="discord",
    event_type=(Member("event.type"),),
    delivery_id=(Digest(timestamped=True),),
    repository="application_id",
    handshake="answer-ping",
    answered=204,
)

SENDGRID = Scheme(
    name="sendgrid",
    documentation="The tests of SendGrid's libraries. The secret is the public key; the line break that ends a body is signed too.",
    confirmed=True,
    signature=Header("x-twilio-email-event-webhook-signature"),
    encoding="base64",
    algorithm="ecdsa-p256",
    secret_form="spki-base64",
    timestamp=Header("x-twilio-email-event-webhook-timestamp"),
    signed=(Part.TIMESTAMP, Part.BODY),
    namespace="sendgrid",
    event_type=(Member("event"),),
    delivery_id=(Member("sg_event_id"), Digest()),
    repository="email",
    is_batch=True,
)

ZOOM = Scheme(
    name="zoom",
    documentation="Zoom's page on webhooks. Keyed with the app's secret token; the address is asked about again every 72 hours.",
    signature=Header("x-zm-signature"),
    prefix="v0=",
    timestamp=Header("x-zm-request-timestamp"),
    signed=("v0:", Part.TIMESTAMP, ":", Part.BODY),
    namespace="zoom",
    event_type=(Member("event"),),
    delivery_id=(Digest(),),
    repository="payload.object.uuid",
    key="payload.object.uuid",
    handshake="hash-token",
    answered=200,
)

META = Scheme(
    name="meta",
    documentation="The tests of WhatsApp's SDK; all of Meta signs so. Keyed with the app secret; a body may hold many changes.",
    confirmed=True,
    signature=Header("x-hub-signature-256"),
    prefix="sha256=",
    namespace="meta",
    event_type=(Member("object"),),
    action="entry.0.changes.0.field",
    delivery_id=(Digest(),),
    repository="entry.0.id",
    key="entry.0.id",
    handshake="hub-challenge",
    answered=200,
)

LINE = Scheme(
    name="line",
    documentation="LINE's page on verifying webhooks. Keyed with the channel secret; a body may hold many events, or none to try it.",
    confirmed=True,
    signature=Header("x-line-signature"),
    encoding="base64",
    namespace="line",
    event_type=(Member("events.0.type"),),
    delivery_id=(Member("events.0.webhookEventId"), Digest()),
    repository="destination",
    key="events.0.source.userId",
    answered=200,
)

MUX = Scheme(
    name="mux",
    documentation="Mux's library for Elixir. Each attempt says in its body which ones were before it, so it is another body.",
    confirmed=True,
    signature=Header("mux-signature"),
    items=Items(separator=",", wanted="v1"),
    timestamp=Item("t"),
    signed=(Part.TIMESTAMP, ".", Part.BODY),
    namespace="mux",
    event_type=(Member("type"),),
    delivery_id=(Member("id"), Digest()),
    repository="object.id",
    key="object.id",
)

MESSAGES = (SLACK, TWILIO, MAILGUN, DISCORD, SENDGRID, ZOOM, META, LINE, MUX)
