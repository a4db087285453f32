"""Owns the verb table of `hooklake`, and how a verb's errors become a sentence and an exit code.

    0  done        1  it failed, or something needs a person
    2  a setting or an argument is wrong        3  unavailable just now, try again later

A verb is the module that the table names, run as `python -m module`: requeueing needs no pyspark, and signals and exit codes
are the module's own. The table holds names only, because `infra` never imports a service.
"""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, NoReturn

from infra.running.shadowing import shadowed

if TYPE_CHECKING:
    import typer

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_UNAVAILABLE = 3


@dataclass(frozen=True, slots=True)
class Verb:
    """A word of the command line, the module that does it, and what it does."""

    name: str
    module: str
    help: str


VERBS = (
    Verb("up", "infra.running.launcher", "Starts everything on this machine and keeps it running until Ctrl-C."),
    Verb("init", "infra.running.initialise", "Writes a commented settings file and fresh secrets; never overwrites."),
    Verb("send", "ingest.send", "Signs events like a provider and posts them to the receiver."),
    Verb("sources", "ingest.listing", "Lists who may send, and how each sender is verified."),
    Verb("append", "ingest.append", "Appends one event from the shell, now or at a later time."),
    Verb("status", "infra.running.status", "Shows lag, counts, dead letters and processes on one screen."),
    Verb("query", "analytics.query", "Runs a read-only SQL query over the archived tables."),
    Verb("sql", "analytics.sql", "Opens a prompt for read-only SQL questions."),
    Verb("tables", "analytics.listing", "Shows the tables: rows, files, bytes, newest commit and columns."),
    Verb("replay", "analytics.replay", "Hands archived events to a group again, or its whole history to a new one."),
    Verb("report", "analytics.report", "Writes an HTML page with plots of traffic, latency, failures and drift."),
    Verb("upkeep", "analytics.upkeep", "Puts small files of the tables together and removes what nobody needs any more."),
    Verb("erase", "analytics.erase", "Erases events of a tenant, a source or a condition for ever, from everywhere."),
    Verb("audit", "analytics.audit", "Reads the tables again: damaged files, changed bodies, signatures, gaps and duplicates."),
    Verb("doctor", "infra.running.doctor", "Checks this installation and says what to do about each fault."),
    Verb("dead-letters", "processors.requeue", "Lists, shows, requeues and discards events that a group gave up on."),
    Verb("quarantine", "ingest.release", "Lists, shows, releases and discards requests that were refused."),
    Verb("groups", "processors.groups", "Lists consumer groups, shows what they wrote, and purges or removes one."),
    Verb("work", "processors", "Runs a group's processors over its events."),
    Verb("ingest", "ingest", "Runs the receiver."),
    Verb("archive", "analytics", "Runs the archive: drains the log into Delta tables."),
    Verb("healthcheck", "infra.running.healthcheck", "Asks one service whether it is ready; for containers."),
)


def main() -> NoReturn:
    """The `hooklake` command: becomes the verb's process."""
    arguments = sys.argv[1:]
    if (offender := shadowed()) is not None:
        _refuse(offender)
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        _print_overview()
        sys.exit(0 if arguments else EXIT_CONFIG)
    if arguments[0] == "--version":
        print(f"hooklake {metadata.version('hooklake')}")
        sys.exit(0)
    verb = find_verb(arguments[0])
    if verb is None:
        _refuse(unknown_verb(arguments[0]))
    _become(verb, arguments=arguments[1:])


def run(app: typer.Typer, *, service: str = "") -> NoReturn:
    """Runs a verb's typer app; errors are one sentence each.

    A wrong argument and ConfigError exit with 2, Unavailable with 3, other errors of ours with 1. What nobody expected is a
    traceback; in the log of a service it is one JSON line.
    """
    import typer

    from infra.log_lines import report_uncaught
    from infra.running.obstacles import obstacle
    from infra.settings import home_directory
    from schemas.errors import ConfigError, HooklakeError, Unavailable

    if (offender := shadowed()) is not None:
        _refuse(offender)
    app.rich_markup_mode = None
    app.pretty_exceptions_enable = False
    if service:
        report_uncaught(service)
    try:
        code = app(prog_name=program_name(), standalone_mode=False)
    except ConfigError as error:
        _refuse(str(error))
    except Unavailable as error:
        _refuse(str(error), code=EXIT_UNAVAILABLE)
    except HooklakeError as error:
        _refuse(str(error), code=EXIT_FAILED)
    except OSError as error:
        # Every verb makes and opens files in its home: what is in the way there is said in one place.
        sentence = obstacle(error, home=home_directory())
        if not sentence:
            raise
        _refuse(sentence)
    except typer.Abort:
        _refuse("it was interrupted, and nothing more was done", code=EXIT_FAILED)
    except typer.TyperException as error:
        _refuse_arguments(error)
    finally:
        if service:
            report_uncaught(service)  # Again: typer has put a hook of its own there.
    # What a verb raised as typer.Exit comes back as a number; a verb that simply ends returns nothing.
    sys.exit(code if isinstance(code, int) else 0)


def _refuse_arguments(error: typer.TyperException) -> NoReturn:
    """Of a wrong argument one sentence, where typer would print its usage too; a group of verbs alone shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":  # Not exported; typer itself goes by this name.
        print(error.format_message(), file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    said = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else program_name()
    _refuse(f"{said[:1].lower()}{said[1:]}; `{command} --help` shows what can be given")


def overview() -> str:
    width = max(len(verb.name) for verb in VERBS)
    verbs = "\n".join(f"  {verb.name:<{width}}  {verb.help}" for verb in VERBS)
    return (
        "hooklake receives webhooks, keeps every one of them for ever, and lets you process, query and replay them.\n\n"
        f"Usage: hooklake VERB [ARGUMENTS]...\n\n{verbs}\n\n"
        "`hooklake VERB --help` explains a verb. Data and settings live in .hooklake, or where HOOKLAKE_HOME says."
    )


def _print_overview() -> None:
    try:
        print(overview(), flush=True)
    except BrokenPipeError:
        # `hooklake --help | head`: the reader has seen enough; Python's own flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find_verb(name: str) -> Verb | None:
    return next((verb for verb in VERBS if verb.name == name), None)


def unknown_verb(name: str) -> str:
    """The sentence for a word that is no verb."""
    names = [verb.name for verb in VERBS]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"{name!r} is no verb of hooklake" + (f"; did you mean `hooklake {near[0]}`?" if near else f": use one of {', '.join(names)}")


def program_name() -> str:
    """`hooklake send` for the process that runs `ingest.send`, so that help shows what people type."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec else ""
    return next((f"hooklake {verb.name}" for verb in VERBS if verb.module == module), module or "hooklake")


def _become(verb: Verb, *, arguments: list[str]) -> NoReturn:
    # Without it `python -m` would put the working directory first, and a user's own `schemas/` there would be ours.
    os.putenv("PYTHONSAFEPATH", "1")
    os.execv(sys.executable, [sys.executable, "-m", verb.module, *arguments])


def _refuse(sentence: str, *, code: int = EXIT_CONFIG) -> NoReturn:
    print(f"hooklake: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)
