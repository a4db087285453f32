from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import orjson
import pytest
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from analytics.rendering import as_json, as_text
from infra.running.screen import visible


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (b"text", "text"),
        (b"\xff\x00", "/wA="),
        (bytearray(b"text"), "text"),
        (VariantVal.parseJson('{"a": [1, 2]}'), '{"a":[1,2]}'),
        (datetime(2026, 1, 2, 3, 4, 5, 6000), "2026-01-02T03:04:05.006000+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.50"), "1.50"),
        ({"a": b"b"}, '{"a":"b"}'),
        (Row(a=1, b=[None, True]), '{"a":1,"b":[null,true]}'),
    ],
)
def test_every_kind_of_value_is_one_line_of_text(value: object, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("attack", "shown"),
    [
        ("\x1b]52;c;cm0gLXJmIC8=\x07", r"\x1b]52;c;cm0gLXJmIC8=\x07"),
        ("line\r\nforged", r"line\x0d\x0aforged"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_could_act_on_a_terminal_is_written_out(attack: str, shown: str) -> None:
    assert visible(attack) == shown
    assert as_text(attack.encode()) == shown


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    assert visible("Zoë, 東京, עברית, 🎉") == "Zoë, 東京, עברית, 🎉"


def test_a_row_is_one_line_of_json_that_keeps_a_variant_as_it_is() -> None:
    line = as_json(Row(id="one", payload=VariantVal.parseJson('{"n": 12345678901234567890}')))

    assert line == '{"id":"one","payload":{"n":12345678901234567890}}'


@pytest.mark.parametrize("attack", ["\x1b[2J", "\x9b2J", "\x7f", "\u202e", "\u2028", "\U000e0041", "line\r\nforged"])
def test_json_neither_acts_on_a_terminal_nor_says_anything_else_than_the_row(attack: str) -> None:
    line = as_json(Row(body=attack.encode(), payload=VariantVal.parseJson(orjson.dumps(attack).decode())))

    assert line == visible(line)
    assert orjson.loads(line) == {"body": attack, "payload": attack}
