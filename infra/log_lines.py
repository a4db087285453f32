"""Owns the log lines of a process: one JSON object per line on stderr, which no value can break or forge."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class StandardError:
    """Writes finished lines; a closed or full stderr costs the line, never the caller's work."""

    def msg(self, line: str) -> None:
        try:
            # Looked up at every call: who replaced sys.stderr since (a test, a daemon) gets the lines.
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return

    log = debug = info = warning = error = critical = fatal = failure = err = exception = msg


class LibraryLines(logging.Handler):
    """Turns what libraries say through `logging` into our lines, so that a log file has one format."""

    def __init__(self, log: FilteringBoundLogger, *, quiet_s: float = 10.0) -> None:
        super().__init__()
        self._log = log
        self._quiet_s = quiet_s
        self._said_at: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        # An exporter without its collector complains about every batch: the same complaint once in `quiet_s` is enough.
        place = (record.name, str(record.lineno))
        if record.created - self._said_at.get(place, 0.0) < self._quiet_s:
            return
        self._said_at[place] = record.created
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        self._log.log(record.levelno, "library message", logger=record.name, text=text, exc_info=record.exc_info)


def open_log(service: str, *, level: str, trace_ids: Callable[[], dict[str, str]]) -> FilteringBoundLogger:
    """A logger for one process; `trace_ids` gives the ids of the span that runs, or nothing."""

    def stamp(_logger: Any, method: str, fields: EventDict) -> EventDict:
        stamped = {"timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": method, "service": service}
        # Stamped twice: first for the eye, last so that no field can pass for the time, the level or the service.
        return {**stamped, **trace_ids(), **fields, **stamped}

    logger: FilteringBoundLogger = structlog.wrap_logger(
        StandardError(),
        processors=[structlog.processors.format_exc_info, stamp, render],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        cache_logger_on_first_use=True,
    )
    return logger


def render(_logger: Any, _method: str, fields: EventDict) -> str:
    """Fields as one line of ASCII: line breaks and control characters of any alphabet stay escaped."""
    try:
        line = json.dumps(fields, default=repr)
    except (TypeError, ValueError, RecursionError):  # Keys that are no strings, cycles: show what can be shown.
        line = json.dumps({str(key): repr(value) for key, value in fields.items()})
    return line.replace("\x7f", "\\u007f")


def report_uncaught(service: str) -> None:
    """From now on what nobody caught, in any thread, is one line of this process's log instead of a traceback over many."""
    log = open_log(service, level="error", trace_ids=dict)

    def of_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("the process failed", reason=f"{kind.__name__}: {error}", exc_info=(kind, error, trace))

    def of_thread(raised: threading.ExceptHookArgs) -> None:
        if raised.exc_type is not SystemExit:
            reason = f"{raised.exc_type.__name__}: {raised.exc_value}"
            about = (raised.exc_type, raised.exc_value, raised.exc_traceback)
            log.critical("a thread failed", thread=raised.thread.name if raised.thread else "", reason=reason, exc_info=about)

    sys.excepthook = of_process
    threading.excepthook = of_thread


def take_over_library_logs(log: FilteringBoundLogger) -> LibraryLines:
    """Makes `log` the only handler of ours on the root logger."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LibraryLines)]:
        root.removeHandler(handler)
    taken = LibraryLines(log)
    root.addHandler(taken)
    return taken


def give_back_library_logs(handler: LibraryLines) -> None:
    logging.getLogger().removeHandler(handler)
