from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from analytics.views import View, load_views, parse_view
from ingest.samples import sample
from ingest.schemes import SCHEMES
from tests.analytics.test_transforms import events
from tests.documents import ROOT, table_rows

PAGE = ROOT / "analytics" / "views" / "README.md"
VIEWS = load_views()
FORM = "application/x-www-form-urlencoded"
ORDER = {
    "id": 820982911946154508,
    "name": "#9999",
    "total_price": "199.65",
    "line_items": [{"id": 1, "sku": "IPOD2008", "quantity": 2, "price": "99.80"}, {"id": 2, "title": "Case", "quantity": 1}],
}
# What the providers' samples and vectors have, and what nobody should send: every member of another type.
WRONG = (
    b'{"commits": 5, "ref": {"a": 1}, "created": "soon", "pull_request": [], "data": null, "id": [], "line_items": {"a": 1}, "event": 7}'
)


def vector(provider: str, *, having: str) -> bytes:
    """The body of the one vector that has such a text."""
    found: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / f"{provider}.json").read_text())
    (body,) = {str(one["body"]) for one in found["vectors"] if having in str(one["body"])}
    return body.encode()


def an_auth(scheme: str) -> str:
    return json.dumps(
        {"scheme": scheme, "key_id": "k1", "signature_headers": {}, "signed_url": "", "verified_at": None, "remote_address": ""}
    )


@pytest.fixture(scope="module")
def over_examples(spark: SparkSession) -> SparkSession:
    """A session whose `events` are examples of all providers."""
    github, slack = SCHEMES["github"], SCHEMES["slack"]
    rows = events(
        spark,
        {"id": "push", "event_type": "github.push", "body": sample(github, event_type="push", number=3)},
        {"id": "pull", "event_type": "github.pull_request.opened", "body": sample(github, event_type="pull_request.opened", number=3)},
        {"id": "review", "event_type": "github.pull_request_review.submitted", "body": b"{}"},
        {"id": "issue", "event_type": "github.issues.opened", "body": b'{"issue": {"labels": [{"name": "bug"}, {"name": 5}]}}'},
        {"id": "invoice", "event_type": "stripe.invoice.paid", "body": vector("stripe", having="in_1")},
        {"id": "charge", "event_type": "stripe.charge.refunded", "body": b'{"data": {"object": {"amount_refunded": 500}}}'},
        {
            "id": "order",
            "event_type": "shopify.orders/create",
            "body": json.dumps(ORDER).encode(),
            "headers": '{"x-shopify-shop-domain": "example.myshopify.com"}',
        },
        {
            "id": "message",
            "event_type": "slack.message",
            "auth_context": an_auth("slack"),
            "body": sample(slack, event_type="message", number=7),
        },
        {
            "id": "command",
            "event_type": "slack.received",
            "auth_context": an_auth("slack"),
            "content_type": FORM,
            "body": vector("slack", having="command="),
        },
        {
            "id": "no form",
            "event_type": "slack.received",
            "auth_context": an_auth("slack"),
            "content_type": FORM,
            "body": b"command=%zz&\xff & =",
        },
        {"id": "no json", "event_type": "github.push", "body": b"\xff"},
        *({"id": f"wrong {n}", "event_type": name, "body": WRONG} for n, name in enumerate(WRONG_TYPES)),
    )
    rows.cache().createOrReplaceTempView("events")
    for view in VIEWS:
        spark.sql(view.sql).createOrReplaceTempView(view.name)
    return spark


WRONG_TYPES = (
    "github.push", "github.pull_request.opened", "github.issues.closed", "github.workflow_run.completed", "stripe.invoice.paid",
    "stripe.charge.failed", "shopify.orders/paid", "shopify.products/update", "slack.message",
)  # fmt: skip


def row(spark: SparkSession, view: str, *, event: str) -> Row:
    (found,) = spark.table(view).where(f"id = '{event}'").collect()
    return found


def test_a_view_tells_its_rows_and_every_column(over_examples: SparkSession) -> None:
    for view in VIEWS:
        assert view.comment.endswith(".")
        assert [column.name for column in view.columns] == over_examples.table(view.name).columns, view.name


def test_every_view_reads_whatever_was_sent(over_examples: SparkSession) -> None:
    counts = {view.name: len(over_examples.table(view.name).collect()) for view in VIEWS}

    assert counts == {
        "github_issues": 2, "github_pull_requests": 2, "github_pushes": 3, "github_workflow_runs": 1, "shopify_order_lines": 2,
        "shopify_orders": 2, "shopify_products": 1, "slack_commands": 1, "slack_events": 1, "slack_messages": 2, "stripe_events": 4,
        "stripe_invoices": 2, "stripe_payments": 2,
    }  # fmt: skip


def test_what_is_missing_or_of_another_type_is_null(over_examples: SparkSession) -> None:
    wrong = row(over_examples, "github_pushes", event="wrong 0")

    assert (wrong.created, wrong.commits, wrong.message, wrong.repository) == (None, None, None, "octo/hello")


def test_github(over_examples: SparkSession) -> None:
    push, pull = row(over_examples, "github_pushes", event="push"), row(over_examples, "github_pull_requests", event="pull")

    assert (push.ref, push.forced, push.pusher, push.commits) == ("refs/heads/main", False, "octocat", 2)
    assert (pull.action, pull.number, pull.title, pull.head_ref, pull.additions) == ("opened", 3, "Change number 3", "change-3", 10)
    assert (str(pull.opened_at)[:10], pull.merged_at) == ("2026-01-15", None)
    assert row(over_examples, "github_issues", event="issue").labels == ["bug", "5"]


def test_stripe(over_examples: SparkSession) -> None:
    invoice = row(over_examples, "stripe_invoices", event="invoice")

    assert (invoice.stripe_id, invoice.change, invoice.invoice) == ("evt_1", "paid", "in_1")
    assert row(over_examples, "stripe_events", event="invoice").type == "invoice.paid"
    assert row(over_examples, "stripe_payments", event="charge").amount_refunded == 500


def test_shopify(over_examples: SparkSession) -> None:
    order = row(over_examples, "shopify_orders", event="order")
    lines = over_examples.table("shopify_order_lines").orderBy("line_id").collect()

    assert (order.change, order.shop, order.name, str(order.total_price)) == ("create", "example.myshopify.com", "#9999", "199.65")
    assert [(line.order_id, line.sku, line.quantity) for line in lines] == [(ORDER["id"], "IPOD2008", 2), (ORDER["id"], None, 1)]


def test_slack(over_examples: SparkSession) -> None:
    message, command = row(over_examples, "slack_messages", event="message"), row(over_examples, "slack_commands", event="command")

    assert (message.channel, message.text, message.team) == ("C1", "message 7", "T1DC2JH3J")
    assert (command.command, command.user_name, command.team) == ("/webhook-collect", "roadrunner", "T1DC2JH3J")


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
def test_the_page_tells_every_column_with_its_type(view: View, over_examples: SparkSession) -> None:
    types = {field.name: field.dataType.simpleString().upper() for field in over_examples.table(view.name).schema}
    rows = [f"| `{column.name}` | `{types[column.name]}` | {column.comment} |" for column in view.columns]

    assert table_rows(PAGE, heading=view.name, first="column") == rows


def test_the_package_s_page_lists_every_view() -> None:
    rows = [f"| `{view.name}` | {view.comment} |" for view in VIEWS]

    assert table_rows(ROOT / "analytics" / "README.md", heading="Views", first="view") == rows


def test_a_column_is_named_by_the_end_of_its_line() -> None:
    view = parse_view("a_view", "-- Some rows.\nSELECT\n  -- One.\n  one,\n  -- Two.\n  f(x, 'y') AS two\nFROM events\n")

    assert (view.comment, [(column.name, column.comment) for column in view.columns]) == ("Some rows.", [("one", "One."), ("two", "Two.")])
