"""Owns `hooklake quarantine`: what was refused and kept aside, shown to a person, let in after all, or discarded.

0  done, also when there was nothing to do        1  a named request does not exist, or one could not be released or discarded,
2  a setting or an argument is wrong                 or a subscription that was released not be confirmed
3  the log is unavailable, try again later: what was done stays done
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Table

from infra.clock import Clock
from infra.running.choosing import Choice, act_on, chosen_of, filter_of, is_agreed, is_terminal
from infra.running.cli import EXIT_FAILED, run
from infra.running.moments import operator_name
from infra.running.screen import print_json, print_list, visible
from infra.settings import load_settings
from infra.streams.decided import OPEN
from infra.streams.letter_filter import LetterFilter
from infra.streams.probe import refuse_unfit_log
from infra.streams.quarantine import DISCARDED, RELEASED, RELEASING, QuarantinedRequests
from infra.streams.stream import EventStream
from ingest.releasing import REFUSED, WOULD, Releaser
from ingest.sources import Sources
from ingest.windows import windows_of
from schemas.errors import ConfigError, NotFound
from schemas.quarantined import QuarantinedRequest

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Lists, shows, releases and discards requests that were refused.")

STATES = (OPEN, RELEASED, DISCARDED, "all")
WHAT = "refused requests"
SHOWN_REASONS = 5
LONGEST_BECAUSE = 2000
NOTES = {REFUSED: "are refused again", "already": "were {done} before", RELEASED: "were released before", "gone": "are gone"}
NOTES[DISCARDED] = "were discarded before"
NOTES[RELEASING] = "may be on the log already, as their release was begun: release them"

Names = Annotated[list[str] | None, typer.Argument(help="Ids of refused requests, as `list` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All open ones that the filters let pass.")]
Tenant = Annotated[str, typer.Option(help="Only requests to this tenant.")]
SourceName = Annotated[str, typer.Option("--source", help="Only requests to this source.")]
Since = Annotated[str, typer.Option(help="Only what was refused at this time or later: ISO 8601, or `2h` ago.")]
Until = Annotated[str, typer.Option(help="Only what was refused before this time.")]
Reason = Annotated[str, typer.Option(help="Only reasons that contain this text.")]
State = Annotated[str, typer.Option(help="`open`, `released`, `discarded` or `all`.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before acting on --all.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command("list")
def list_requests(
    tenant: Tenant = "",
    source: SourceName = "",
    since: Since = "",
    until: Until = "",
    reason: Reason = "",
    state: State = OPEN,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """Lists refused requests, newest first, one line each."""
    among = filter_of(STATES, tenant=tenant, source=source, since=since, until=until, reason=reason, state=state)
    with _opened() as requests:
        found = map(summary, requests.entries(among, limit=limit + 1))
        print_list(found, limit=limit, table=table, nothing=f"no {'' if state == 'all' else state + ' '}{WHAT}", as_json=as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The refused request's id.")],
    as_json: Json = False,  # noqa: ARG001 - it is JSON anyway; scripts pass it to every command
) -> None:
    """Shows everything that was kept of a refused request, and what was decided about it, as JSON; its body is base64."""
    with _opened() as requests:
        for request in named(requests, name):
            sys.stdout.write(request.model_dump_json(indent=2) + "\n")


@app.command()
def release(
    names: Names = None,
    everything: All = False,
    tenant: Tenant = "",
    source: SourceName = "",
    since: Since = "",
    until: Until = "",
    reason: Reason = "",
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would verify now, and why others would not.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Lets requests in that verify with today's secrets, as of the time when they came; doing it twice is harmless.

    Exits with 1 when one could not be released, which stays where it is, or when a subscription to Amazon SNS was not confirmed.
    """
    among = filter_of(STATES, tenant=tenant, source=source, since=since, until=until, reason=reason, state=OPEN)
    settings, clock = load_settings(), Clock()
    sources = Sources.from_settings(settings)
    with _opened() as requests, asyncio.Runner() as runner:
        refuse_unfit_log(settings.log, home=settings.home)
        stream = EventStream.open(settings.log, home=settings.home, clock=clock, windows=windows_of(settings))
        choice = chosen(requests, names=names or [], everything=everything, among=among, limit=limit)
        releaser = Releaser(requests, sources=sources, stream=stream, runner=runner, clock=clock)
        goes_on = not dry_run and (yes or not everything or is_agreed(choice, verb="release", what=WHAT))
        act = partial(releaser.release, by=operator_name()) if goes_on else releaser.look_at
        results = act_on(choice, act=act, what="releasing")
        runner.run(stream.close())
    done, asked = RELEASED if goes_on else WOULD, releaser.subscriptions
    report(choice, results=results, done=done, reasons=releaser.reasons, subscriptions=asked, is_dry=not goes_on, as_json=as_json)
    is_done = not goes_on or (results[RELEASED] + results["already"] == choice.count and not any(asked.values()))
    raise typer.Exit(0 if is_done else EXIT_FAILED)


@app.command()
def discard(
    names: Names = None,
    because: Annotated[str, typer.Option(help="Why; it is kept with the request.")] = "",
    everything: All = False,
    tenant: Tenant = "",
    source: SourceName = "",
    since: Since = "",
    until: Until = "",
    reason: Reason = "",
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Closes refused requests for good, with a record of who did so and why; nothing is deleted.

    Exits with 1 when one was released or discarded before, is being released, or is gone.
    """
    among = filter_of(STATES, tenant=tenant, source=source, since=since, until=until, reason=reason, state=OPEN)
    if not because.strip() and not dry_run:
        raise ConfigError("discarding needs --because TEXT, which is kept with the request; nothing was discarded")
    with _opened() as requests:
        choice = chosen(requests, names=names or [], everything=everything, among=among, limit=limit)
        if everything and not (yes or dry_run or is_terminal()):
            raise ConfigError("discarding --all cannot be undone: say --yes where nobody can be asked; nothing was discarded")
        goes_on = not dry_run and (yes or not everything or is_agreed(choice, verb="discard", what=WHAT))
        why = because.encode("utf-8", "replace").decode()[:LONGEST_BECAUSE]
        act = partial(requests.close_as, DISCARDED, by=operator_name(), because=why)
        results = act_on(choice, act=act, what="discarding") if goes_on else Counter[str]()
    report(choice, results=results, done=DISCARDED, reasons=Counter(), subscriptions={}, is_dry=not goes_on, as_json=as_json)
    raise typer.Exit(EXIT_FAILED if goes_on and results[DISCARDED] < choice.count else 0)


@contextlib.contextmanager
def _opened() -> Iterator[QuarantinedRequests]:
    settings = load_settings()
    requests = QuarantinedRequests.open(settings.log, home=settings.home)
    try:
        yield requests
    finally:
        requests.close()


def chosen(requests: QuarantinedRequests, *, names: list[str], everything: bool, among: LetterFilter, limit: int | None) -> Choice:
    """Counts what is meant; raises ConfigError when that is not clear, and NotFound for a name that nothing has."""

    def ids_of(name: str) -> list[str]:
        return [request.id for request in named(requests, name)]

    return chosen_of(requests, names=names, everything=everything, among=among, limit=limit, what=WHAT, ids_of=ids_of)


def named(requests: QuarantinedRequests, name: str) -> list[QuarantinedRequest]:
    found = requests.find(name)
    if not found:
        raise NotFound(f"no refused request is called {name}; `hooklake quarantine list --state all` shows them all")
    return found


def summary(request: QuarantinedRequest) -> dict[str, Any]:
    """What a list says of a request; small, so that a long list fits into memory."""
    names = ("id", "tenant_id", "source", "code", "reason", "received_at", "remote_address", "state")
    return {**{name: getattr(request, name) for name in names}, "body_bytes": len(request.body)}


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table("request", "tenant", "source", "code", "bytes", "received at", "from", "state", "reason")
    for row in rows:
        cells = (row["id"], row["tenant_id"], row["source"], row["code"], row["body_bytes"], f"{row['received_at']:%Y-%m-%d %H:%M:%S}")
        # Reasons quote what strangers sent: one line of plain text.
        shown.add_row(*(visible(str(value)) for value in (*cells, row["remote_address"], row["state"], row["reason"])))
    return shown


def report(
    choice: Choice,
    *,
    results: Counter[str],
    done: str,
    reasons: Counter[str],
    subscriptions: Mapping[str, str],
    is_dry: bool,
    as_json: bool,
) -> None:
    if as_json:
        counts = {answer: results[answer] for answer in (RELEASED, DISCARDED, RELEASING, REFUSED, "already", "gone")}
        counts |= {"would_be_released": results[WOULD]} if done == WOULD else {}
        print_json({"found": choice.count, **counts, "reasons": dict(reasons), "subscriptions": dict(subscriptions), "dry_run": is_dry})
        return
    if is_dry and done == DISCARDED:
        print(f"{choice.count} {WHAT} would be discarded")
        return
    notes = [f"{results[answer]} {text.format(done=done)}" for answer, text in NOTES.items() if answer != done and results[answer]]
    print(f"{results[done]} of {choice.count} {WHAT} {done}" + (f" ({', '.join(notes)})" if notes else ""))
    for why, count in reasons.most_common(SHOWN_REASONS):
        print(f"  {count} because {visible(why)}")
    advice = "let Amazon ask again from its console, or open the `SubscribeURL` of the stored event"
    for topic, why in subscriptions.items():
        print(f"  the subscription to {topic} is {f'NOT confirmed ({visible(why)}): {advice}' if why else 'confirmed'}")


if __name__ == "__main__":
    run(app)
