from __future__ import annotations

import io
from datetime import UTC, date, datetime
from pathlib import Path

import orjson
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)  # fmt: skip

from analytics.formats import Format, print_text, refuse_unwritable, write
from analytics.questions import Answer, Limits, within
from schemas.errors import ConfigError


def schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


SCHEMA = schema(
    id=StringType(),
    n=LongType(),
    body=BinaryType(),
    at=TimestampType(),
    day=DateType(),
    headers=MapType(StringType(), StringType()),
    part=schema(of=IntegerType()),
)
AT = datetime(2026, 2, 28, 12, tzinfo=UTC)
FULL = Row(id='a "b",\nc', n=7, body=bytearray(b"\xff\x00"), at=AT, day=date(2026, 2, 28), headers={"k": "v"}, part=Row(of=2))
EMPTY = Row(id="", n=None, body=None, at=None, day=None, headers=None, part=None)
ANSWER = Answer(SCHEMA, [FULL, EMPTY])


def printed(form: Format, answer: Answer = ANSWER) -> str:
    file = io.StringIO()
    print_text(answer, form=form, file=file)
    return file.getvalue()


def test_a_table_shows_what_could_act_on_a_terminal_written_out() -> None:
    shown = printed(Format.TABLE, Answer(schema(id=StringType(), body=BinaryType()), [Row(id="[red]one[/red]", body=b"\x1b[2J")]))

    assert "[red]one[/red]" in shown
    assert r"\x1b[2J" in shown


def test_json_is_one_array() -> None:
    assert orjson.loads(printed(Format.JSON)) == [
        {
            "id": 'a "b",\nc',
            "n": 7,
            "body": "/wA=",
            "at": "2026-02-28T12:00:00+00:00",
            "day": "2026-02-28",
            "headers": {"k": "v"},
            "part": {"of": 2},
        },
        {"id": "", "n": None, "body": None, "at": None, "day": None, "headers": None, "part": None},
    ]
    assert printed(Format.JSON, Answer(SCHEMA, [])) == "[]\n"


def test_csv_tells_an_empty_text_from_null() -> None:
    assert printed(Format.CSV).split("\r\n") == [
        '"id","n","body","at","day","headers","part"',
        '"a ""b"",\nc",7,"/wA=","2026-02-28T12:00:00+00:00","2026-02-28","{""k"":""v""}","{""of"":2}"',
        '"",,,,,,',
        "",
    ]


def test_parquet_has_the_types_of_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"

    write(ANSWER, form=Format.PARQUET, output=path)

    assert pq.read_table(path).to_pylist() == [
        {
            "id": 'a "b",\nc',
            "n": 7,
            "body": b"\xff\x00",
            "at": AT,
            "day": date(2026, 2, 28),
            "headers": [("k", "v")],
            "part": {"of": 2},
        },
        {"id": "", "n": None, "body": None, "at": None, "day": None, "headers": None, "part": None},
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_file_is_replaced_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("what was there before, and is longer than what comes")

    write(Answer(schema(n=IntegerType()), [Row(n=1)], more="There are more rows."), form=Format.CSV, output=path)

    assert path.read_bytes() == b'"n"\r\n1\r\n'
    assert capsys.readouterr() == ("", "There are more rows.\n")


def test_parquet_is_not_printed_and_a_missing_directory_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a file with --output"):
        refuse_unwritable(Format.PARQUET, output=None)
    with pytest.raises(ConfigError, match="there is no directory"):
        refuse_unwritable(Format.CSV, output=tmp_path / "no" / "rows.csv")


ROWS = [Row(id="x" * 91) for _ in range(10)]  # 100 bytes each, as JSON.
IDS = schema(id=StringType())


@pytest.mark.parametrize(
    ("limits", "rows", "sentence"),
    [
        (Limits(rows=10), 10, ""),
        (Limits(rows=9), 9, "these are the first 9. Use --limit"),
        (Limits(size_bytes=1000), 10, ""),
        (Limits(size_bytes=999), 9, "these 9 are all that 999 bytes can hold. Use --max-bytes"),
        (Limits(size_bytes=1), 0, "these 0 are all that 1 bytes can hold"),
    ],
)
def test_an_answer_keeps_to_its_limits_and_says_so(limits: Limits, rows: int, sentence: str) -> None:
    answer = within(limits, schema=IDS, rows=ROWS)

    assert len(answer.rows) == rows
    assert sentence in answer.more
    assert bool(answer.more) == bool(sentence)
