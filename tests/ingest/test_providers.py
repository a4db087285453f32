"""What each provider's requests are described as; the requests are those of the vectors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from ingest.describe import describe, describe_item
from ingest.headers import Headers
from ingest.request import Request
from ingest.scheme import Header
from ingest.schemes import SCHEMES
from schemas.errors import Refused
from tests.ingest.vectors import FOLDER, Vector, all_vectors, vectors_of

DESCRIBED = {
    "aws-sns": (
        "sns.Notification",
        "17dea24b-55c2-540b-8362-f916557af765",
        "arn:aws:sns:us-east-2:295079676684:publish-and-verify-62674b1d-4295-426b-88e7-5fb75652a04e",
    ),
    "bitbucket": ("bitbucket.repo:push", "r-1", ""),
    "circleci": ("circleci.workflow-completed", "3888f21b-eaa7-38e3-8f3d-75a63bba8895", "github/octo/hello"),
    "cloudevents": ("vector.com.example.created", "361338fa18fbce37bdd9d32b8f90ad398560b7bb", ""),
    "discord": ("discord.APPLICATION_AUTHORIZED", "087c99cb73d262597eb63c376c86fdf012eef50c", "1234560123453231555"),
    "gitlab": ("gitlab.push", "13792a34-cac6-4fda-95a8-c58e00a3954e", "octo/hello"),
    "gitlab-token": ("gitlab.push", "13792a34-cac6-4fda-95a8-c58e00a3954e", "octo/hello"),
    "hubspot-v1": ("hubspot.batch", "94d4cf868ba813b5247912fd7fe48cb78d43dfd4", ""),
    "intercom": ("intercom.conversation.user.created", "notif_1", "1"),
    "jira": ("jira.jira:issue_updated", "a-1", "HOOK-1"),
    "line": ("line.message", "01FZ74A0TDDPYRVKNK77XKC3ZR", "U8e742f61d673b39c7fff3cecb7536ef0"),
    "linear": ("linear.Comment.create", "234d1a4e-b617-4388-90fe-adc3633d6b72", "2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9"),
    "mailgun": ("mailgun.opened", "5egbgr1vjgqxtrnp65xfznchgdccwh5d6i09vijq", "b@example.com"),
    "meta": ("meta.whatsapp_business_account.messages", "fffa2bbb863cdbc90410e2ba11fb91e9ce91bddc", "8856996819413533"),
    "mux": ("mux.video.asset.ready", "3a56ac3d-33da-4366-855b-f592d898409d", "0201p02fGKPE7MrbC269XRD7LpcHhrmbu0002"),
    "notion": ("notion.page.content_updated", "367cba44-b6f3-4c92-81e7-6a2e9659efd4", "153104cd-477e-809d-8dc4-ff2d96ae3090"),
    "pagerduty": ("pagerduty.incident.priority_updated", "w-1", "PGR0VU2"),
    "razorpay": ("razorpay.payment.captured", "event-1", "acc_1"),
    "sendgrid": ("sendgrid.batch", "ef3e4606385ea6adbc55fceb6117cf2784040cf1", ""),
    "shopify": ("shopify.orders/create", "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "gid://shopify/Order/820982911946154508"),
    "slack": ("slack.received", "398738663015.47445629121.803a0bc887a14d1", "T1DC2JH3J"),
    "square": ("square.webhooks.test_notification", "ac3ac95b-f97d-458c-a6e6-18981597e05f", "MLEFBHHSJGVHD"),
    "standard-webhooks": ("vector.received", "msg_p5jXN8AQM9LWM0D4loKWxJek", ""),
    "stripe": ("stripe.customer.created", "evt_123", "cus_123"),
    "svix": ("vector.received", "msg_p5jXN8AQM9LWM0D4loKWxJek", ""),
    "twilio": ("twilio.received", "7ff5f5e8aa2f59e9e4958d3779bcfedc75baf446", ""),
    "typeform": ("typeform.form_response", "e-1", "lT4Z3j"),
    "zendesk": ("zendesk.zen:event-type:ticket.created", "z-1", "zen:ticket:1"),
    "zoom": ("zoom.meeting.started", "a55de1f1248ae82af58185cbaa126084ced84974", "4444AAAiAAAAAiAiAiiAii=="),
}
LONGEST = 40
"""Hashes are compared by their first characters."""


@pytest.mark.parametrize(("scheme", "expected"), DESCRIBED.items(), ids=DESCRIBED)
def test_a_request_is_described_by_type_delivery_and_subject(scheme: str, expected: tuple[str, str, str]) -> None:
    vectors = vectors_of(FOLDER / f"{scheme}.json")
    # Of a scheme whose published body says nothing, its last vector.
    vector = vectors[-1 if scheme in ("circleci", "jira", "line", "meta", "mux", "notion", "razorpay", "shopify") else 0]

    described = describe(vector.scheme, request=vector.request)

    assert (described.event_type, described.delivery_id[:LONGEST], described.repository) == expected


def test_a_providers_own_headers_are_stored_and_its_tokens_are_not() -> None:
    stored = {
        vector.scheme.name: describe(vector.scheme, request=vector.request).headers for vector in all_vectors() if vector.published is False
    }

    assert "x-gitlab-token" not in stored["gitlab-token"]
    assert stored["gitlab-token"]["x-gitlab-event"] == "Push Hook"
    assert "authorization" not in stored["cloudevents"]
    assert stored["cloudevents"]["ce-source"] == "/s"


@pytest.mark.parametrize(
    ("content", "event_type"),
    [
        ({"type": "event_callback", "event": {"type": "app_mention"}, "event_id": "Ev1"}, "slack.app_mention"),
        ({"type": "block_actions"}, "slack.block_actions"),
        ({"event": "text"}, "slack.received"),
        ([], "slack.received"),
    ],
)
def test_slack_events_and_interactions_are_told_apart(content: object, event_type: str) -> None:
    request = Request(Headers([(b"content-type", b"application/json")]), json.dumps(content).encode())

    assert describe(SCHEMES["slack"], request=request).event_type == event_type


@pytest.mark.parametrize("scheme", ["bitbucket", "jira", "shopify", "gitlab-token"])
def test_what_a_provider_forgot_to_name_is_named_by_its_bytes(scheme: str) -> None:
    """It was signed: it is kept, and not sent back for want of a header that says nothing else."""
    named = vectors_of(FOLDER / f"{scheme}.json")[-1]
    places = [place.name for place in named.scheme.delivery_id if isinstance(place, Header)]
    nameless = replace(named, headers=tuple((name, value) for name, value in named.headers if name.lower() not in places))

    found = describe(named.scheme, request=nameless.request)

    assert found.delivery_id == hashlib.sha256(named.body).hexdigest()
    assert found.event_type == describe(named.scheme, request=named.request).event_type


def test_of_a_sender_without_delivery_ids_the_same_bytes_are_one_delivery() -> None:
    zoom, discord = (vectors_of(FOLDER / f"{name}.json")[0] for name in ("zoom", "discord"))
    again = zoom.with_header("x-zm-request-timestamp", "1700000060")
    later = discord.with_header("x-signature-timestamp", "1700000060")

    assert describe(zoom.scheme, request=again.request).delivery_id == describe(zoom.scheme, request=zoom.request).delivery_id
    assert describe(discord.scheme, request=later.request).delivery_id != describe(discord.scheme, request=discord.request).delivery_id


@pytest.mark.parametrize("vector", all_vectors(), ids=lambda vector: f"{vector.scheme.name}: {vector.origin}")
@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "application/json", "", "text/plain"])
def test_calling_a_body_something_else_makes_no_other_delivery_of_it(vector: Vector, content_type: str) -> None:
    """No signature covers Content-Type: whoever repeats a request under another one must not get past the duplicates."""
    renamed = vector.with_header("content-type", content_type)

    try:
        renamed.verified()
        described, again = (describe(vector.scheme, request=one.request) for one in (vector, renamed))
    except Refused:
        return

    assert (again.event_type, again.delivery_id) == (described.event_type, described.delivery_id)


def cloudevent(*, source: str, name: str, in_headers: bool) -> Request:
    """As it is sent in headers around its data, or whole."""
    if in_headers:
        return Request(Headers([(b"ce-source", source.encode()), (b"ce-id", name.encode()), (b"ce-type", b"t")]), b"{}")
    return Request(Headers([]), json.dumps({"source": source, "id": name, "type": "t"}).encode())


@pytest.mark.parametrize("in_headers", [True, False])
def test_a_cloudevent_is_named_by_its_source_and_its_id(in_headers: bool) -> None:
    named = [("/a", "1"), ("/b", "1"), ("/a", "2"), ("/a1", ""), ("/", "a1"), ("/a", "1")]

    *ids, again = [
        describe(SCHEMES["cloudevents"], request=cloudevent(source=source, name=name, in_headers=in_headers)).delivery_id
        for source, name in named
    ]

    assert len(set(ids)) == len(ids)
    assert again == ids[0]


def test_cloudevents_in_a_batch_are_named_the_same_as_alone() -> None:
    scheme = replace(SCHEMES["cloudevents"], is_batch=True)
    alone = cloudevent(source="/a", name="1", in_headers=False)
    batch = Request(Headers([]), b"[%b]" % alone.body)

    item = describe_item(scheme, request=batch, item=json.loads(alone.body), whole=describe(scheme, request=batch), number=1)

    assert item.delivery_id == describe(scheme, request=alone).delivery_id


def test_a_repeated_delivery_of_gitlab_is_known_by_its_idempotency_key() -> None:
    """The UUID is another one when an event is sent again, and the same for all that one action caused."""
    (vector,) = vectors_of(FOLDER / "gitlab-token.json")
    first = vector.with_header("idempotency-key", "i-1")
    again = first.with_header("x-gitlab-event-uuid", "another")

    assert describe(vector.scheme, request=first.request).delivery_id == describe(vector.scheme, request=again.request).delivery_id == "i-1"


def test_what_mailgun_sends_again_after_ten_minutes_is_believed() -> None:
    """It tries again after five minutes at the soonest, and nothing says that it signs anew."""
    vector = vectors_of(FOLDER / "mailgun.json")[0]

    assert replace(vector, later=timedelta(minutes=10)).is_believed
