from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from analytics import warming
from analytics.commits import Commit, write_rows
from analytics.event_rows import record_batches
from analytics.samples import sample_entries
from analytics.settings import ArchiveSettings
from infra.settings import FILE_NAME, LogSettings, TelemetrySettings, load_settings
from infra.telemetry import Telemetry
from schemas.errors import TableUnavailable
from tests.analytics.conftest import append
from tests.events import an_event
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


def begun(spark: SparkSession, home: Path, *, url: str, prefix: str = "t:", wanted: bool = True) -> None:
    """Begins as an archive does on such settings, and waits for it."""
    archive = {"warm_up": wanted}
    (home / FILE_NAME).write_text(yaml.safe_dump({"log": {"url": url, "prefix": prefix}, "archive": archive}))
    settings = load_settings(home)
    telemetry = Telemetry.start("archive", TelemetrySettings(), home=home)
    with ExitStack() as stack:
        stack.callback(telemetry.shutdown)
        section = settings.section("archive", ArchiveSettings)
        warming.begin_warming(settings, section=section, spark=spark, telemetry=telemetry, stack=stack).result()


def test_a_spark_is_made_warm_when_that_is_wanted_and_no_event_waits_for_it(
    spark: SparkSession, log: LogSettings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[Path] = []
    monkeypatch.setattr(warming, "warm_up", lambda *_, scratch, **__: warmed.append(scratch))

    begun(spark, home, url=log.url, prefix=log.prefix, wanted=False)
    assert warmed == []
    begun(spark, home, url=log.url, prefix=log.prefix)
    assert warmed == [home / "run" / "spark-archive"]
    append(log, home, an_event())
    begun(spark, home, url=log.url, prefix=log.prefix)
    assert len(warmed) == 1
    begun(spark, home, url=f"redis://127.0.0.1:{free_port()}/0")  # Of a log that cannot be asked nothing is known to wait.
    assert len(warmed) == 2


def test_a_spark_that_cannot_be_made_warm_is_a_warning_and_no_reason_to_end(
    spark: SparkSession, log: LogSettings, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (scratch := home / "run" / "spark-archive").mkdir(parents=True)
    (scratch / "warm").write_text("in the way")

    begun(spark, home, url=log.url, prefix=log.prefix)

    assert "Spark could not be made warm" in capfd.readouterr().err


def test_a_scratch_directory_that_takes_nothing_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "warm").write_text("in the way")

    with pytest.raises(TableUnavailable, match="warm cannot be written"):
        warming.warm_up(spark, log=LogSettings(url="redis://127.0.0.1:1/0"), home=tmp_path, scratch=tmp_path)


def test_a_made_up_entry_is_an_event_like_others() -> None:
    (batch,) = record_batches(sample_entries(3), stream="0:default")

    rows = batch.to_pylist()
    assert [(row["decode_error"], row["sequence"]) for row in rows] == [(None, 1), (None, 2), (None, 3)]
    assert len({row["id"] for row in rows}) == 3
