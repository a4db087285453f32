"""The schemes of those who sell, bill and pay."""

from __future__ import annotations

from ingest.scheme import Digest, Header, Item, Items, Member, Part, Scheme

STRIPE = Scheme(
    name="stripe",
    documentation="Stripe's page on webhook signatures. `v0` is for Stripe's tests, and is never looked at.",
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

SALES = (STRIPE,)
