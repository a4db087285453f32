"""Which events a replay means, how many there are, and whose."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics.counting import count, slices
from analytics.selection import Selection, chosen
from analytics.statements import refuse_all_but_a_condition
from infra.streams.keys import Keys
from schemas.errors import ConfigError
from schemas.event import StreamEvent
from tests.analytics.test_rebuilding import archived
from tests.events import an_event

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = {
    "push": an_event(timestamp=NOON),
    "opened": an_event(timestamp=NOON + timedelta(hours=1), event_type="github.pull_request.opened", payload=b'{"number": 7}'),
    "paid": an_event(timestamp=NOON + timedelta(days=2), source="stripe", event_type="stripe.invoice.paid"),
    "other": an_event(timestamp=NOON + timedelta(days=2, milliseconds=1), tenant_id="acme"),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return archived(spark, list(EVENTS.values())).cache()


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, ["push", "opened", "paid", "other"]),
        ({"since": NOON + timedelta(hours=1)}, ["opened", "paid", "other"]),
        ({"until": NOON + timedelta(hours=1)}, ["push"]),
        ({"since": NOON + timedelta(days=1), "until": NOON + timedelta(days=2, milliseconds=1)}, ["paid"]),
        ({"tenants": ("acme", "nobody")}, ["other"]),
        ({"sources": ("stripe",)}, ["paid"]),
        ({"types": ("github.push",)}, ["push", "other"]),
        ({"types": ("github.pull_request.*", "stripe.*")}, ["opened", "paid"]),
        ({"events": (EVENTS["paid"].id,)}, ["paid"]),
        ({"where": "payload:number::int = 7 OR tenant_id = 'acme'"}, ["opened", "other"]),
        ({"where": "payload:number::int = 7 OR tenant_id = 'acme'", "tenants": ("demo",)}, ["opened"]),
    ],
)
def test_a_choice_means_the_rows_of_which_all_of_it_is_true(rows: DataFrame, choice: dict[str, Any], expected: list[str]) -> None:
    selection = Selection(**choice)

    found = chosen(rows, selection=selection).select("id").collect()

    assert {row.id for row in found} == {EVENTS[name].id for name in expected}
    assert Selection.from_json(selection.to_json()) == selection


def test_events_are_counted_by_whose_they_are_by_day_and_by_shard(rows: DataFrame) -> None:
    counted = count(rows, shards=4)

    keys = Keys("any:", 4)
    assert (counted.events, counted.unreadable, counted.batch) == (4, 0, 1)
    assert counted.days == [(date(2026, 3, 1), 2), (date(2026, 3, 3), 2)]
    assert sum(one[-1] for one in counted.whose) == 4
    assert ("demo", "stripe", "stripe.invoice.paid", 1) in counted.whose
    assert counted.shards == {shard: sum(keys.shard_of(event) == shard for event in EVENTS.values()) for shard in counted.shards}


def test_what_is_no_event_is_counted_apart(spark: SparkSession) -> None:
    broken: list[StreamEvent] = [an_event(timestamp=NOON), an_event(timestamp=NOON).model_copy(update={"version": 9})]

    counted = count(archived(spark, broken), shards=4)

    assert (counted.events, counted.unreadable, [events for _, events in counted.days]) == (1, 1, [1])


def test_nothing_is_counted_of_nothing(rows: DataFrame) -> None:
    counted = count(rows.where("false"), shards=4)

    assert (counted.events, counted.unreadable, counted.days, counted.shards) == (0, 0, [], {})


def test_days_are_taken_together_up_to_a_size() -> None:
    days = [(date(2026, 1, day), count_of_day) for day, count_of_day in enumerate((3, 4, 5, 20, 1, 1), 1)]

    found = slices(days, most=10)

    assert [(first.day, last.day) for first, last in found] == [(1, 2), (3, 3), (4, 4), (5, 6)]
    assert slices([]) == []


@pytest.mark.parametrize(
    "condition",
    ["tenant_id = 'demo'", "payload:number::int > 3 AND received_date = '2026-03-01'", "event_type LIKE 'github.%' -- a remark", "true"],
)
def test_a_condition_is_taken(spark: SparkSession, rows: DataFrame, condition: str) -> None:
    rows.createOrReplaceTempView("events")

    refuse_all_but_a_condition(spark, condition=condition, table="events")


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("true) UNION SELECT 1 --", "cannot be used"),
        ("true; DROP TABLE events", "cannot be used"),
        ("id IN (SELECT id FROM events)", "more than a condition"),
        ("EXISTS (SELECT 1)", "more than a condition"),
        ("true GROUP BY 1", "cannot be used"),
        ("no_such_column = 1", "cannot be used"),
        ("received_at > now() - INTERVAL 1 DAY", "other rows each time"),
        ("received_date = current_date()", "other rows each time"),
        ("rand() < 0.1", "other rows each time"),
        ("1 + 1", "cannot be used"),
        ("", "cannot be used"),
    ],
)
def test_what_is_more_than_a_condition_is_refused(spark: SparkSession, rows: DataFrame, condition: str, said: str) -> None:
    rows.createOrReplaceTempView("events")

    with pytest.raises(ConfigError, match=said):
        refuse_all_but_a_condition(spark, condition=condition, table="events")
