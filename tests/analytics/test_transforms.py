from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from analytics.event_rows import SPARK_SCHEMA
from analytics.tables import EVENTS
from analytics.transforms import to_events, without_archived

NOW = datetime(2026, 3, 1, 12, 0, 0, 5000, tzinfo=UTC)
RAW: dict[str, Any] = {
    "stream": "0:default", "entry_id": "1-0", "id": "one", "tenant_id": "demo", "source": "github", "event_type": "github.push",
    "repository": "octo/hello", "delivery_id": "d1", "key": "", "priority": "default", "body_sha256": "aa", "content_type": "text/plain",
    "headers": '{"x-github-event":"push"}', "traceparent": "", "incarnation": "a", "version": 1, "timestamp": 1772323199999, "sequence": 1,
    "auth_context": '{"scheme":"github","key_id":"k1","signature_headers":{"s":"v"},"signed_url":"","verified_at":'
    '"2026-02-28T23:59:59.999000Z","remote_address":"::1"}',
    "conflict": False, "body": b"{}", "raw_entry": None, "decode_error": None, "part": None, "flags": None,
}  # fmt: skip


def raw(spark: SparkSession, *changes: dict[str, Any]) -> DataFrame:
    names = [part.split("`")[1] for part in SPARK_SCHEMA.split(", ")]
    return spark.createDataFrame([tuple({**RAW, **change}[name] for name in names) for change in changes], SPARK_SCHEMA)


def events(spark: SparkSession, *changes: dict[str, Any]) -> DataFrame:
    return to_events(raw(spark, *changes), batch=7, archived_at=NOW)


def ids(rows: DataFrame) -> list[str]:
    return sorted(row.id for row in rows.select("id").collect())


def test_a_raw_entry_becomes_a_row_with_the_columns_and_types_of_the_table(spark: SparkSession) -> None:
    rows = events(spark, {})

    assert [(field.name, field.dataType) for field in rows.schema] == [(field.name, field.dataType) for field in EVENTS.schema]
    row = rows.withColumn("received_at", F.unix_millis("received_at")).withColumn("archived_at", F.unix_millis("archived_at")).collect()[0]
    assert (row.received_at, row.received_date) == (1772323199999, date(2026, 2, 28))
    assert (row.batch, row.archived_at) == (7, 1772366400005)
    assert row.headers == {"x-github-event": "push"}
    assert (row.auth_context.scheme, row.auth_context.signature_headers) == ("github", {"s": "v"})
    assert row.auth_context.verified_at is not None
    assert (row.part, row.flags) == (None, None)


def test_a_part_has_its_place_in_the_body_and_an_event_its_flags(spark: SparkSession) -> None:
    part = '{"number":2,"of":3,"body_sha256":"ab","before":", ","after":""}'

    (row,) = events(spark, {"part": part, "flags": '["schema_mismatch"]'}).collect()

    assert (row.part.asDict(), row.flags) == (
        {"number": 2, "of": 3, "body_sha256": "ab", "before": ", ", "after": ""},
        ["schema_mismatch"],
    )


DEEP = b"[" * 10_000 + b"]" * 10_000


@pytest.mark.parametrize(
    ("body", "payload", "error"),
    [
        (b'{"a": [1, null]}', '{"a":[1,null]}', None),
        (b"null", "null", None),
        ('"Zoë"'.encode(), '"Zoë"', None),
        (b"", None, "the body is empty"),
        (b"\xff\xfe", None, "the body is not UTF-8"),
        (b"a=1&b=2", None, "the body is not JSON, is nested too deep, or has a member twice"),
        (b"\x00", None, "the body is not JSON, is nested too deep, or has a member twice"),
        (DEEP, None, "the body is not JSON, is nested too deep, or has a member twice"),
        (b"9" * 5_000, None, "the body is not JSON, is nested too deep, or has a member twice"),
        (b'{"a": "\\ud800"}', None, "the body is not JSON, is nested too deep, or has a member twice"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', None, "the body is not JSON, is nested too deep, or has a member twice"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_the_body_is_kept_and_parsed_where_it_is_json(spark: SparkSession, body: bytes, payload: str | None, error: str | None) -> None:
    row = events(spark, {"body": body}).select("body", F.to_json("payload").alias("payload"), "parse_error").collect()[0]

    assert row == Row(body=body, payload=payload, parse_error=error)


def test_an_entry_that_is_no_event_has_a_row_with_a_date(spark: SparkSession) -> None:
    nothing = {name: None for name, value in RAW.items() if isinstance(value, str) and name not in ("stream", "entry_id")}

    row = events(spark, {**nothing, "body": None, "version": None, "raw_entry": b"{}", "decode_error": "why"}).collect()[0]

    assert (row.received_date, row.raw_entry, row.decode_error, row.parse_error) == (date(2026, 2, 28), b"{}", "why", None)


def test_rows_that_are_archived_by_id_are_left_out(spark: SparkSession) -> None:
    archived = events(spark, {"id": "one", "delivery_id": "", "entry_id": "1-0"})
    rows = events(spark, {"id": "one", "delivery_id": "", "entry_id": "5-0"}, {"id": "two", "delivery_id": "", "entry_id": "6-0"})

    assert ids(without_archived(rows, archived=archived)) == ["two"]


def test_a_delivery_that_is_archived_with_the_same_body_is_left_out(spark: SparkSession) -> None:
    archived = events(spark, {"id": "one"})
    rows = events(
        spark,
        {"id": "again", "entry_id": "2-0"},
        {"id": "other-body", "entry_id": "3-0", "body_sha256": "bb"},
        {"id": "other-tenant", "entry_id": "4-0", "tenant_id": "else"},
        {"id": "without-delivery-id", "entry_id": "5-0", "delivery_id": ""},
    )

    assert ids(without_archived(rows, archived=archived)) == ["other-body", "other-tenant", "without-delivery-id"]


def test_empty_delivery_ids_are_not_the_same_delivery(spark: SparkSession) -> None:
    archived = events(spark, {"id": "one", "delivery_id": ""})

    assert ids(without_archived(events(spark, {"id": "two", "delivery_id": "", "entry_id": "2-0"}), archived=archived)) == ["two"]


def test_an_entry_without_an_id_is_recognised_by_its_position(spark: SparkSession) -> None:
    unknown = {"id": None, "tenant_id": None, "source": None, "delivery_id": None, "body_sha256": None, "incarnation": None}
    archived = events(spark, unknown)
    rows = events(spark, unknown, {**unknown, "entry_id": "2-0"})

    left = without_archived(rows, archived=archived).collect()

    assert [row.entry_id for row in left] == ["2-0"]
    assert left[0].asDict().keys() == {column.name for column in EVENTS.columns}


def test_a_delivery_that_comes_twice_in_one_batch_is_kept_once_and_as_it_came_first(spark: SparkSession) -> None:
    unknown = {"id": None, "tenant_id": None, "source": None, "delivery_id": None, "body_sha256": None, "incarnation": None}
    rows = events(
        spark,
        {"id": "second", "entry_id": "10-0", "timestamp": RAW["timestamp"] + 1, "stream": "1:default"},
        {"id": "first", "entry_id": "9-0"},
        {"id": "other-body", "entry_id": "11-0", "body_sha256": "bb"},
        {"id": "alone", "entry_id": "12-0", "delivery_id": ""},
        {"id": "alone-too", "entry_id": "13-0", "delivery_id": ""},
        {**unknown, "entry_id": "14-0"},
        {**unknown, "entry_id": "15-0"},
    )

    left = without_archived(rows, archived=events(spark, {"id": "else", "delivery_id": "d0"}))

    kept = sorted(row.id or row.entry_id for row in left.collect())
    assert kept == ["14-0", "15-0", "alone", "alone-too", "first", "other-body"]
