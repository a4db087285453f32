"""Owns how replays are shown: what would be replayed, what was, and all of them in a table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from analytics.counting import Counted
from infra.running.screen import table_console
from infra.streams.replays import Replay, Replays
from schemas.errors import HooklakeError

SHOWN = 20
LOOK_EVERY_S = 0.3


@contextmanager
def bar(replay: Replay, *, replays: Replays) -> Iterator[None]:
    """What the log says of the replay, on a terminal; the replay itself runs in processes of Spark's."""
    console, ended = Console(stderr=True), threading.Event()
    if not console.is_terminal:
        yield
        return
    columns = (f"replay {replay.id} into {replay.group}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=replay.about["events"])

        def look() -> None:
            while not ended.wait(LOOK_EVERY_S):
                try:
                    found = next(one for one in replays.of(replay.group) if one.id == replay.id)
                except (HooklakeError, StopIteration):
                    continue  # The replay itself says what is wrong.
                progress.update(task, completed=found.handed)

        thread = threading.Thread(target=look, name="replay-bar", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def say_counted(counted: Counted, *, group: str, as_json: bool) -> None:
    if as_json:
        whose = [dict(zip(("tenant", "source", "type", "events"), one, strict=True)) for one in counted.whose]
        facts = {"group": group, "replayed": False, "events": counted.events, "unreadable": counted.unreadable, "whose": whose}
        print(orjson.dumps(facts).decode())
        return
    if counted.events:
        table_console().print(whose_table(counted))
    print(f"{counted.events} events would be replayed into group {group}{_and_unreadable(counted.unreadable)}")


def say_done(replay: Replay, *, waiting: int, as_json: bool) -> None:
    if as_json:
        print(orjson.dumps({**facts_of(replay), "replayed": True, "waiting": waiting}).decode())
        return
    unreadable = _and_unreadable(replay.about["unreadable"])
    print(f"replay {replay.id}: {replay.handed} events were handed to group {replay.group}, {waiting} of which wait there{unreadable}")


def _and_unreadable(unreadable: int) -> str:
    return f"; {unreadable} entries that are no events cannot be replayed" if unreadable else ""


def whose_table(counted: Counted) -> Table:
    table = Table("tenant", "source", "type", "events")
    for tenant, source, kind, events in counted.whose[:SHOWN]:
        table.add_row(tenant, source, Text(kind), str(events))
    if rest := counted.whose[SHOWN:]:
        table.add_row("", "", f"{len(rest)} more", str(sum(events for *_, events in rest)))
    return table


def say_replays(found: list[Replay], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(orjson.dumps([facts_of(one) for one in found], option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        table_console().print(_replay_table(found) if found else "no replays")


def far(replay: Replay) -> str:
    return f"{replay.handed} of {replay.about['events']} events"


def facts_of(replay: Replay) -> dict[str, object]:
    """For machines."""
    about = replay.about
    return {
        "replay": replay.id, "group": replay.group, "started_at": about["started_at"], "by": about["by"], "selection": about["selection"],
        "events": about["events"], "unreadable": about["unreadable"], "handed": replay.handed, "is_done": replay.is_done,
    }  # fmt: skip


def _replay_table(found: list[Replay]) -> Table:
    table = Table("replay", "group", "began", "by", "handed", "events", "")
    for one in found:
        began = f"{datetime.fromisoformat(one.about['started_at']):%Y-%m-%d %H:%M:%S} UTC"
        state = "done" if one.is_done else f"hooklake replay --resume {one.id}"
        table.add_row(one.id, one.group, began, Text(one.about["by"]), str(one.handed), str(one.about["events"]), state)
    return table
