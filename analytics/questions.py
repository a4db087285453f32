"""Owns questions: a session made ready for nothing but one, and its rows within limits of count, size and time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from analytics.catalog import Lake, known_names, make_known
from analytics.rendering import as_json
from analytics.statements import first_words, harden, relations_of
from schemas.errors import ConfigError, QueryCancelled

CANCEL_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What an answer may cost."""

    rows: int = 1000
    timeout_s: float = 60.0
    size_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Question:
    """One statement, and what the answer may cost."""

    sql: str
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that fit, and a sentence when there are more."""

    schema: StructType
    rows: list[Row]
    more: str = ""


def admit(spark: SparkSession, *, sql: str, lake: Lake) -> None:
    """Readies a session that only answers questions for this one; raises ConfigError for what is more than a question."""
    # First of all: it decides how the text is read.
    harden(spark)
    make_known(spark, names=relations_of(spark, sql=sql, known=known_names()), lake=lake)


def answer(spark: SparkSession, question: Question) -> Answer:
    """Asks a session that has admitted the question. Raises ConfigError when it is wrong, QueryCancelled when it takes too long."""
    limits = question.limits
    try:
        with (deadline if is_remote(spark) else own_deadline)(limits.timeout_s):
            found = spark.sql(question.sql)
            return within(limits, schema=found.schema, rows=_rows(found.limit(limits.rows + 1)))
    except (QueryCancelled, KeyboardInterrupt):
        cancel(spark)
        raise
    except (PySparkException, Py4JError) as error:
        raise ConfigError(f"the query failed: {first_words(error)}") from error


def is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cancel(spark: SparkSession) -> None:
    """Ends what a session at the archive runs, there; an archive that does not answer is left. Our own Spark has ended it by itself."""
    if is_remote(spark):
        with suppress(PySparkException, QueryCancelled), deadline(CANCEL_WITHIN_S):
            spark.interruptAll()


def _rows(found: DataFrame) -> Iterable[Row]:
    # Through Spark Connect rows come batch by batch, so that whoever has enough can leave. A session of our own would run
    # a job for each partition that way.
    return found.toLocalIterator() if is_remote(found.sparkSession) else found.collect()


def within(limits: Limits, *, schema: StructType, rows: Iterable[Row]) -> Answer:
    """The first rows, as many as the limits allow. Pure."""
    taken: list[Row] = []
    size_bytes = 0
    for row in rows:
        size_bytes += len(as_json(row))
        if len(taken) == limits.rows:
            return Answer(schema, taken, f"There are more rows; these are the first {limits.rows}. Use --limit to see more.")
        if size_bytes > limits.size_bytes:
            more = f"There are more rows; these {len(taken)} are all that {limits.size_bytes} bytes can hold. Use --max-bytes to see more."
            return Answer(schema, taken, more)
        taken.append(row)
    return Answer(schema, taken)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raises QueryCancelled in the middle of what runs; in the main thread only, since it is a signal."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise too_long(seconds)

    before, timer = signal.signal(signal.SIGALRM, give_up), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


@contextmanager
def own_deadline(seconds: float) -> Iterator[None]:
    """The same for a Spark of this process, whose jobs are cancelled from another thread.

    An exception in the middle of a call to its JVM would leave the answer in the line, to be taken for that of the next call.
    """
    context = SparkContext._active_spark_context
    assert context is not None
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        context.cancelAllJobs()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if is_late.is_set():
            raise too_long(seconds) from error
        raise
    finally:
        timer.cancel()


def too_long(seconds: float) -> QueryCancelled:
    return QueryCancelled(
        f"the query did not end within {seconds:g} s and was cancelled: ask for less, such as one received_date, or give it longer with "
        "--timeout"
    )
