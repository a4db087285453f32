"""Owns the archive's side of a question: looks at the statement before Spark Connect is asked to run it.

Spark Connect runs whatever it is sent, and a client has no parser. So `hooklake query` names a session and shows its statement here,
on a port of this machine, with the token of Spark Connect. The archive makes that session, takes from it all that a question does
not need, and says whether Spark's own parser finds a question. What is then run there can be no more than that.

    POST /  {"session": a UUID, "sql": a statement}      204 admitted      422 {"error"} refused      503 {"error"} not just now
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import orjson
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analytics.catalog import Lake, PublicNames
from analytics.connect import HOST, Endpoint, connect_service, endpoint, publish
from analytics.questions import admit
from analytics.reaching import LONGEST_QUESTION_BYTES, QUESTIONS_FILE, USER
from analytics.statements import first_words
from infra.running.loops import keep_running_blocking
from infra.telemetry import Telemetry
from schemas.errors import ConfigError, HooklakeError, TableUnavailable

NAME_EVERY_MS = 5000


@contextmanager
def taking_questions(spark: SparkSession, *, lake: Lake, telemetry: Telemetry) -> Iterator[Endpoint]:
    """Opens this Spark to notebooks and to `hooklake query` while the context is; raises ConfigError when the port is taken."""
    with (
        endpoint(spark, port=lake.settings.connect_port, home=lake.home) as opened,
        admitting(spark, token=opened.token, lake=lake),
        naming(PublicNames(spark, lake), telemetry=telemetry),
    ):
        yield opened


@contextmanager
def naming(names: PublicNames, *, telemetry: Telemetry) -> Iterator[None]:
    """Gives tables their names as they come, beside what the archive does."""
    stop = threading.Event()
    arguments = {"name": "names of tables", "telemetry": telemetry, "stop": stop, "interval_ms": NAME_EVERY_MS}
    thread = threading.Thread(target=keep_running_blocking, args=(names.step,), kwargs=arguments, name="names", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)


@contextmanager
def admitting(spark: SparkSession, *, token: str, lake: Lake) -> Iterator[None]:
    """Looks at questions while the context is open; its address is in `run/questions`."""
    server = _Server((HOST, 0), _Door)
    server.spark, server.token, server.lake = spark, token, lake
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="questions", daemon=True)
    path = lake.home / QUESTIONS_FILE
    publish(path, f"{HOST}:{server.server_port}")
    thread.start()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        server.shutdown()
        server.server_close()


def admit_into(spark: SparkSession, *, session: str, sql: str, lake: Lake) -> None:
    """Into the session that a client of Spark Connect will use under this name; raises ConfigError or TableUnavailable."""
    try:
        admit(session_of(spark, name=session), sql=sql, lake=lake)
    except PySparkException as error:
        raise TableUnavailable(f"the tables cannot be read just now: {first_words(error)}") from error
    except Py4JError as error:
        raise TableUnavailable(f"the archive's Spark does not answer just now: {str(error).partition(chr(10))[0][:300]}") from error


def session_of(spark: SparkSession, *, name: str) -> SparkSession:
    """The session itself, made when there is none yet."""
    holder: Any = connect_service(spark).getOrCreateIsolatedSession(USER, name)
    return SparkSession(spark.sparkContext, jsparkSession=holder.session())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    spark: SparkSession
    token: str
    lake: Lake

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the library's signature
        # A client that hangs up is no news; the default prints a traceback to stderr.
        return


class _Door(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10  # A client that sends nothing must not hold a thread for ever.

    def do_POST(self) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            self._answer(401, "the token of run/connect is missing or not the one of this archive")
            return
        try:
            session, sql = self._question()
            admit_into(self.server.spark, session=session, sql=sql, lake=self.server.lake)
        except ConfigError as error:
            self._answer(422, str(error))
        except HooklakeError as error:
            self._answer(503, str(error))
        else:
            self._answer(204, "")

    def _question(self) -> tuple[str, str]:
        length = int(self.headers.get("Content-Length", "0"))
        if not 0 < length <= LONGEST_QUESTION_BYTES:
            raise ConfigError(f"a statement of {length} bytes is none that can be asked: the most is {LONGEST_QUESTION_BYTES}")
        try:
            asked = orjson.loads(self.rfile.read(length))
            return str(UUID(asked["session"])), str(asked["sql"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError("what was asked is no JSON object with `session` and `sql`") from error

    def _answer(self, status: int, sentence: str) -> None:
        body = orjson.dumps({"error": sentence}) if sentence else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: ARG002 - the library's signature
        return
