from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics import warming
from analytics.commits import Commit, write_rows
from analytics.event_rows import record_batches
from analytics.samples import sample_entries
from infra.settings import LogSettings
from schemas.errors import TableUnavailable
from tests.ports import free_port


def test_warming_writes_batches_and_leaves_nothing_behind(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that is not there: it is not asked."""
    written = []

    def counted(rows: DataFrame, *, commit: Commit, location: str) -> None:
        write_rows(rows, commit=commit, location=location)
        written.append(spark.read.format("delta").load(location).where("payload IS NOT NULL").count())

    monkeypatch.setattr("analytics.warming.write_rows", counted)
    warming.warm_up(spark, log=LogSettings(url=f"redis://127.0.0.1:{free_port()}/0"), home=tmp_path, scratch=tmp_path)

    rows = warming.AT_ONCE * spark.sparkContext.defaultParallelism
    assert written == [rows * batch for batch in range(1, warming.ROUNDS + 1)]
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_directory_that_takes_nothing_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "warm").write_text("in the way")

    with pytest.raises(TableUnavailable, match="warm cannot be written"):
        warming.warm_up(spark, log=LogSettings(url="redis://127.0.0.1:1/0"), home=tmp_path, scratch=tmp_path)


def test_a_made_up_entry_is_an_event_like_others() -> None:
    (batch,) = record_batches(sample_entries(3), stream="0:default")

    rows = batch.to_pylist()
    assert [(row["decode_error"], row["sequence"]) for row in rows] == [(None, 1), (None, 2), (None, 3)]
    assert len({row["id"] for row in rows}) == 3
