"""What the page says about older states of a table is so."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from analytics import versions
from infra.settings import LogSettings
from tests.analytics.conftest import OpenChains, append
from tests.documents import ROOT
from tests.events import an_event


def block(name: str) -> str:
    (found,) = re.findall(rf"<!-- {name} -->\n```\w+\n(.*?)```", (ROOT / "analytics" / "README.md").read_text(), flags=re.S)
    return str(found)


def test_older_states_are_read_by_a_condition_and_by_version(
    spark: SparkSession, log: LogSettings, home: Path, location: str, open_chains: OpenChains
) -> None:
    append(log, home, an_event(), an_event())
    chains = open_chains()
    then, version = datetime.now(UTC), versions.read_history(Path(location)).newest
    append(log, home, an_event())
    chains.step()

    chains.events.open().table.dataframe().createOrReplaceTempView("events")
    condition = re.sub(r"'[0-9: -]+'", f"'{then:%Y-%m-%d %H:%M:%S.%f}'", block("time travel"))
    assert spark.sql(condition).collect()[0].events == 2
    example: dict[str, Any] = {}
    exec(block("versions"), example)
    assert [example["rows_at"](spark, location, at) for at in (version, version + 1)] == [2, 3]
