"""Owns `hooklake status`: lag, counts, dead letters and processes on one screen, and whether a person is needed.

While the log is away it is what can be said without it (`here.py`).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infra.running.cli import run
from infra.running.here import Here, look_here, not_ready, show_here, show_processes, show_warnings, spool_lines, spool_needs
from infra.sections import DeadLetterSettings
from infra.settings import Settings, load_settings
from infra.spools import SpoolState
from infra.streams.books import Owner, SourceBooks, in_spools, with_term
from infra.streams.caps import Weight, described
from infra.streams.keys import ARCHIVE_GROUP
from infra.streams.overview import GroupState, Overview, read_overview
from infra.streams.probe import refuse_unfit_log
from schemas.errors import ConfigError, StreamUnavailable

LEFT_ALONE_MS = 3_600_000
ALWAYS = ("tenant", "source", "accepted", "archived", "in_log")

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Status:
    """What the screen shows; `needs` has a sentence for everything that will not heal by itself."""

    accepted: int
    duplicates: int
    conflicts: int
    archived: int | None
    in_log: int
    scheduled: int
    lost: int
    foreign: int
    out_of_balance: int
    waiting_retries: int
    open_dead_letters: int
    quarantined: int
    quarantine_dropped: int
    memory: Weight | None
    groups: list[GroupState]
    processes: dict[str, bool | None]
    """Whether each is ready; None when its ops port is a free one, so that it cannot be asked."""
    needs: list[str] = field(default_factory=list)
    durability: str = "fsync"
    erased: int = 0
    expired: int = 0
    books: list[SourceBooks] | None = None
    """By tenant and source; None where very many events would have to be looked at."""
    missing: int = 0
    """What all of these must lack: events that are lost, and those that were accepted twice."""
    spools: list[SpoolState] = field(default_factory=list)
    """What receivers of this home keep until the log takes it; `accepted` and `in_spools` have it."""
    unsigned: list[str] = field(default_factory=list)
    """Sources that believe whoever knows their address."""

    @property
    def in_spools(self) -> int:
        return sum(spool.events for spool in self.spools)


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False) -> None:
    """Shows lag, counts, dead letters and processes; exits with 1 when something needs a person, and with 3 when the log is away."""
    settings = load_settings()
    try:
        overview = read_overview(settings.log, home=settings.home)
    except StreamUnavailable as error:
        # Just then somebody wants to know how many events wait here.
        here = look_here(settings)
        print_json(without_log(here, reason=str(error))) if as_json else show_here(here)
        raise
    found = look(overview, settings=settings)
    if as_json:
        books = None if found.books is None else [one.as_dict() for one in found.books]
        print_json({**asdict(found), "in_spools": found.in_spools, "books": books, "log_away": None})
    else:
        show(found)
    sys.exit(1 if found.needs else 0)


def print_json(values: dict[str, Any]) -> None:
    print(json.dumps(values, indent=2))


def without_log(here: Here, *, reason: str) -> dict[str, Any]:
    """As machines read it: what only the log could tell is there, and null. Pure."""
    known = {**asdict(here), "needs": here.needs, "in_spools": here.in_spools, "log_away": reason}
    del known["remarks"]  # They are among the needs.
    return {**dict.fromkeys(one.name for one in fields(Status)), **known}


def look(overview: Overview, *, settings: Settings) -> Status:
    # After the log, so that what goes there from a spool meanwhile is not counted twice.
    here = look_here(settings)
    letter_cap = settings.section("dead_letters", DeadLetterSettings).cap
    found = summarise(overview, processes=here.processes, letter_cap=letter_cap)
    needs = [*found.needs, *log_needs(settings), *here.remarks]
    found = replace(found, durability=here.durability, unsigned=here.unsigned, needs=needs)
    found = with_spools(found, spools=here.spools)
    return with_books(found, books=overview.books, in_spools=in_spools(settings.home), is_whole=not overview.accepted_before)


def log_needs(settings: Settings) -> list[str]:
    """Why the log is given no events until somebody changes it."""
    try:
        refuse_unfit_log(settings.log, home=settings.home)
    except ConfigError as error:
        return [f"{error}; until then receivers keep events in their spools"]
    return []


def with_books(found: Status, *, books: dict[Owner, SourceBooks] | None, in_spools: Counter[Owner] | None, is_whole: bool) -> Status:
    """Pure: the books of each source, and a sentence when they lack more or less than all together. Of a ledger that was wiped they
    cannot be told."""
    if books is None or in_spools is None or not is_whole or found.archived is None:
        return found
    by_source = with_term(books, "in_spools", in_spools)
    listed = [by_source[owner] for owner in sorted(by_source)]
    odd = found.out_of_balance == 0 and sum(one.missing for one in listed) != found.missing
    needs = ["the books of the sources do not add up to those of the log; look again when nothing arrives, then audit"] if odd else []
    return replace(found, books=listed, needs=[*found.needs, *needs])


def with_spools(found: Status, *, spools: list[SpoolState]) -> Status:
    """Pure: what waits in spools was accepted too, though no ledger has counted it yet."""
    waiting = sum(spool.events for spool in spools)
    return replace(found, accepted=found.accepted + waiting, spools=spools, needs=[*found.needs, *spool_needs(spools)])


def summarise(overview: Overview, *, processes: dict[str, bool | None], letter_cap: int | None = None) -> Status:
    """Pure: what to show, and what to ask a person for."""
    return Status(
        accepted=overview.accepted,
        duplicates=sum(overview.counts.duplicates.values()) + overview.repeated,
        conflicts=sum(overview.counts.conflicts.values()),
        archived=overview.archived_events,
        in_log=overview.above_archived,
        scheduled=overview.scheduled,
        lost=overview.lost,
        foreign=overview.foreign_rows,
        missing=overview.lost + overview.repeated,
        erased=overview.erased + overview.erased_scheduled,
        expired=overview.expired,
        out_of_balance=overview.out_of_balance,
        waiting_retries=overview.waiting_retries,
        open_dead_letters=overview.open_dead_letters,
        quarantined=overview.quarantined,
        quarantine_dropped=overview.unkept,
        memory=overview.weight,
        groups=overview.groups,
        processes=processes,
        needs=[*at_letter_cap(overview, cap=letter_cap), *needs_of(overview, processes=processes)],
    )


def needs_of(overview: Overview, *, processes: dict[str, bool | None]) -> list[str]:
    needs = not_ready(processes)
    if overview.open_dead_letters:
        needs.append(f"{overview.open_dead_letters} dead letters wait for a decision: `hooklake dead-letters list`")
    needs += [
        f"group {state.group} lost {state.lost} entries that were gone before it came to them{_named(state)}"
        for state in overview.groups
        if state.lost
    ]
    needs += [
        f"group {state.group} has {state.parked} parked entries of a version that its workers cannot read: run one of a release that can"
        for state in overview.groups
        if state.parked
    ]
    needs += [_not_read(state) for state in overview.groups if _is_left_alone(state)]
    needs += _memory_needs(overview.weight)
    if overview.lost_scheduled:
        needs.append(f"{overview.lost_scheduled} scheduled events were gone before their time came; ask their senders for them")
    if (missing := overview.out_of_balance) > 0:
        needs.append(f"{missing} accepted events are neither archived nor in the log; look again when nothing arrives, then audit")
    elif missing < 0:
        needs.append(f"the archive has {-missing} rows more than were accepted; look again when nothing arrives, then audit")
    return needs


def _named(state: GroupState) -> str:
    return "" if state.group == ARCHIVE_GROUP else f": `hooklake groups lost {state.group}`"


def at_letter_cap(overview: Overview, *, cap: int | None) -> list[str]:
    """A sentence for each group whose dead letters are at their cap. Pure."""
    return [
        f"group {state.group} has {state.dead_letters} open dead letters, and dead_letters.cap is {cap}: its workers take in nothing until "
        "some are requeued or discarded"
        for state in overview.groups
        if cap is not None and state.dead_letters >= cap
    ]


def _memory_needs(weight: Weight | None) -> list[str]:
    if weight is not None and weight.is_full:
        return [f"the log is above its hard cap and refuses events ({described(weight)}): run the archive and the workers, or add memory"]
    if weight is not None and weight.is_heavy:
        return [f"the log is above its soft cap ({described(weight)}): run the archive and the workers that are behind, or add memory"]
    return []


def _is_left_alone(state: GroupState) -> bool:
    """A durable group keeps what it has not settled for ever, and the log with it; an ephemeral one is removed by itself."""
    is_idle = state.idle_ms is not None and state.idle_ms > LEFT_ALONE_MS
    return state.group != ARCHIVE_GROUP and state.kind == "durable" and state.is_behind and is_idle


def _not_read(state: GroupState) -> str:
    hours = (state.idle_ms or 0) / 3_600_000
    return f"group {state.group} has not read for {hours:.1f} h and is behind: run its worker, or `hooklake groups remove {state.group}`"


def show(found: Status) -> None:
    console = Console(highlight=False, soft_wrap=True)
    show_warnings(console, durability=found.durability, unsigned=found.unsigned)
    console.print(
        f"accepted {found.accepted} = archived {_shown(found.archived)} + in the log {found.in_log}{_rest(found)}: "
        f"{_balance(found)}; "
        f"beside them {found.duplicates} duplicates, {found.conflicts} conflicts{_foreign(found)}"
    )
    console.print(f"waiting retries {found.waiting_retries}, open dead letters {found.open_dead_letters}{_quarantine(found)}")
    if found.books:
        console.print(_books_table(found.books))
    if found.memory is not None:
        console.print(f"memory {described(found.memory)}")
    console.print(_groups_table(found.groups))
    for sentence in owed_sentences(found.groups):
        console.print(sentence)
    for line in spool_lines(found.spools):
        console.print(line)
    show_processes(console, processes=found.processes, needs=found.needs)


def owed_sentences(groups: list[GroupState]) -> list[str]:
    """Nobody has to act: the archive gives it back while the group settles what it is given. Pure."""
    return [
        f"group {state.group} is owed {state.owed} events that the log has no longer; the archive gives them back"
        for state in groups
        if state.owed
    ]


def _books_table(books: list[SourceBooks]) -> Table:
    """A term that is 0 everywhere has no column."""
    rows = [one.as_dict() for one in books]
    shown = [name for name in rows[0] if name in ALWAYS or any(row[name] for row in rows)]
    table = Table(*(name.replace("_", " ") for name in shown), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(row[name])) for name in shown))
    return table


def _groups_table(groups: list[GroupState]) -> Table:
    table = Table("group", "not yet delivered", "in work", "oldest waits", "dead letters", box=None, pad_edge=False)
    for state in groups:
        table.add_row(state.group, _shown(state.undelivered), str(state.pending), _age(state.oldest_ms), str(state.dead_letters))
    return table


def _balance(found: Status) -> str:
    return "[green]the books balance[/]" if found.out_of_balance == 0 else f"[red]out of balance by {found.out_of_balance}[/]"


def _rest(found: Status) -> str:
    """The terms of the books that are 0 in most installations."""
    scheduled = f" + scheduled {found.scheduled}" if found.scheduled else ""
    scheduled += f" + in spools {found.in_spools}" if found.in_spools else ""
    scheduled += f" + erased {found.erased}" if found.erased else ""
    scheduled += f" + expired {found.expired}" if found.expired else ""
    return scheduled + (f" + [red]lost {found.lost}[/]" if found.lost else "")


def _quarantine(found: Status) -> str:
    """Not among what needs a person: strangers would decide when one is called."""
    kept = f", in quarantine {found.quarantined}" if found.quarantined or found.quarantine_dropped else ""
    return kept + (f" ({found.quarantine_dropped} more were refused and not kept)" if found.quarantine_dropped else "")


def _foreign(found: Status) -> str:
    return f", {found.foreign} archived entries that nobody accepted" if found.foreign else ""


def _shown(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _age(oldest_ms: int | None) -> str:
    return "-" if oldest_ms is None else f"{oldest_ms / 1000:.1f} s"


if __name__ == "__main__":
    run(app)
