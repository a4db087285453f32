"""Owns making the archive of classes: a Spark that does once what an archive does, and writes down which classes that took.

`python -m analytics.exercise` is idempotent, and quick when there is an archive for this Java.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer
from pyspark.sql import SparkSession

from analytics.catalog import Lake
from analytics.class_archive import class_archive, fixed_home, make_home
from analytics.connect import endpoint
from analytics.jars import install_jars, jar_directory
from analytics.java import find_java
from analytics.opening import open_table
from analytics.questions import Question, admit, answer
from analytics.session import quick_session, stop_session
from analytics.settings import ArchiveSettings
from analytics.tables import EVENTS
from analytics.warming import warm_up
from infra.running.cli import run
from infra.settings import LogSettings
from schemas.errors import Unavailable

# Java writes the archive when it ends, which takes a while.
PATIENCE_S = 180.0
# Made-up events are read from no log, so nobody connects to it.
NO_LOG = LogSettings(url="redis://127.0.0.1:1/0")
QUESTION = "SELECT event_type, count(*) AS n FROM events GROUP BY ALL ORDER BY n"

app = typer.Typer(add_completion=False)


@app.command()
def main() -> None:
    """Makes the archive of classes, with which Spark starts sooner; does nothing when there is one."""
    archive = class_archive(find_java())
    if not archive.exists():
        make(archive)
    print(f"classes of Spark in {archive} ({archive.stat().st_size // 1_000_000} MB)")


def make(archive: Path) -> None:
    """Raises Unavailable when Java wrote none, which costs nothing but time at each start."""
    install_jars(jar_directory())
    make_home(fixed_home())
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        fresh = Path(folder) / archive.name
        lake = Lake(ArchiveSettings(), Path(folder))
        spark = quick_session(lake.settings, home=lake.home, record=fresh)
        try:
            exercise(spark, lake=lake)
        finally:
            stop_session(spark, patience_s=PATIENCE_S)
        if not fresh.exists():
            raise Unavailable(f"Java has written no archive of classes to {fresh}; Spark works, and starts some seconds later")
        fresh.replace(archive)


def exercise(spark: SparkSession, *, lake: Lake) -> None:
    """What an archive does when it starts; then a table is asked."""
    warm_up(spark, log=NO_LOG, home=lake.home, scratch=lake.home)
    open_table(spark, table=EVENTS, location=lake.location(EVENTS))
    with endpoint(spark, port=0, home=lake.home):
        asking = spark.newSession()
        admit(asking, sql=QUESTION, lake=lake)
        answer(asking, Question(QUESTION))


if __name__ == "__main__":
    run(app)
