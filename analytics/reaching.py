"""Owns a command's way to Spark: through the archive that runs, else by a session of its own.

`hooklake query` and `hooklake sql` ask the same questions either way, under the same rules: only where the rules are looked at differs.
"""

from __future__ import annotations

import http.client
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import orjson
from pyspark.sql import SparkSession

from analytics.catalog import KNOWN_TABLES, Lake
from analytics.questions import Answer, Question, admit, answer, deadline
from analytics.session import quick_session, stop_session
from infra.running.services import CONNECT_FILE
from schemas.errors import ConfigError, QueryCancelled, TableUnavailable

QUESTIONS_FILE = "run/questions"
USER = "hooklake"
LONGEST_QUESTION_BYTES = 1024 * 1024
# The archive's Python is busy for moments only; its JVM may have to wait for a processor.
PATIENCE_S = 20.0
LEAVE_WITHIN_S = 5.0

Say = Callable[[str], AbstractContextManager[None]]
"""Shows what is being waited for, while it is."""


class Asked(Protocol):
    """Whoever answers, and what to call it."""

    @property
    def name(self) -> str: ...

    def answer(self, question: Question) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Door:
    """Where an archive admits questions, and its Spark Connect runs them."""

    address: str
    questions: str

    @classmethod
    def found(cls, home: Path) -> Door | None:
        """None when no archive has told; one that was killed has told too, and does not answer."""
        try:
            return cls((home / CONNECT_FILE).read_text().strip(), (home / QUESTIONS_FILE).read_text().strip())
        except OSError:
            return None

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]

    def admit(self, sql: str, *, session: str) -> None:
        """Raises ConfigError when the statement is refused, TableUnavailable when nobody is there to look at it."""
        body = orjson.dumps({"session": session, "sql": sql})
        if len(body) > LONGEST_QUESTION_BYTES:
            raise ConfigError(f"a statement of {len(sql)} characters is none that can be asked: the most is {LONGEST_QUESTION_BYTES} bytes")
        connection = http.client.HTTPConnection(self.questions, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/", body, {"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise TableUnavailable("no archive answers that could run the query") from error
        finally:
            connection.close()
        if response.status == 422:
            raise ConfigError(orjson.loads(said)["error"])
        if response.status != 204:
            raise TableUnavailable(f"the archive does not take questions just now ({response.status})")


class ThroughArchive:
    """Asks the archive that runs, in one session from the first question to the last."""

    name = "the archive"

    def __init__(self, door: Door) -> None:
        self._door = door
        self._session = str(uuid.uuid4())
        self._admitted = ""
        self._spark: SparkSession | None = None

    def admit(self, sql: str) -> None:
        """Raises ConfigError when the statement is refused, TableUnavailable when nobody is there to look at it."""
        self._door.admit(sql, session=self._session)
        self._admitted = sql

    def answer(self, question: Question) -> Answer:
        if question.sql != self._admitted:
            self.admit(question.sql)
        self._admitted = ""  # Each time anew: tables may have come since.
        if self._spark is None:
            self._spark = connected(f"{self._door.address};user_id={USER};session_id={self._session}")
        return answer(self._spark, question)

    def close(self) -> None:
        if self._spark is not None:
            with suppress(QueryCancelled), deadline(LEAVE_WITHIN_S):
                self._spark.stop()


def connected(address: str) -> SparkSession:
    """A client of Spark Connect that does not try for ten minutes, as it would, to reach an archive that died."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    spark = RemoteSession.builder.remote(address).create()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=3)])
    return cast("SparkSession", spark)


@dataclass(frozen=True, slots=True)
class OwnSession:
    """Asks a Spark of this process's own."""

    spark: SparkSession
    lake: Lake

    @property
    def name(self) -> str:
        return "a Spark of our own"

    def answer(self, question: Question) -> Answer:
        admit(self.spark, sql=question.sql, lake=self.lake)
        return answer(self.spark, question)


@contextmanager
def reached(lake: Lake, *, first: str, say: Say) -> Iterator[Asked]:
    """The archive when it takes the first statement, else a session of our own; raises ConfigError when it refuses it.

    Raises TableUnavailable, before Spark is started for nothing, when there is no table at all.
    """
    if (archive := archive_that_takes(first, home=lake.home)) is not None:
        try:
            yield archive
        finally:
            archive.close()
        return
    refuse_empty(lake)
    with say("no archive answers: starting a Spark of our own"):
        spark = quick_session(lake.settings, home=lake.home)
    try:
        yield OwnSession(spark, lake)
    finally:
        stop_session(spark)


def archive_that_takes(sql: str, *, home: Path) -> ThroughArchive | None:
    if (door := Door.found(home)) is None:
        return None
    archive = ThroughArchive(door)
    try:
        archive.admit(sql)
    except TableUnavailable:
        return None
    return archive


def refuse_empty(lake: Lake) -> None:
    if not any(lake.is_there(table) for table in KNOWN_TABLES):
        location = lake.location(KNOWN_TABLES[0])
        raise TableUnavailable(f"there is no table `{KNOWN_TABLES[0].name}` yet at {location}: it appears with the archive's first batch")
