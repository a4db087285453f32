"""`hooklake groups`, run as an operator runs it, against a real log."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.groups import declare
from infra.streams.keys import Keys
from infra.streams.once import OnceReader
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from tests.events import an_event
from tests.infra.running.processes import run_module
from tests.infra.streams.raw import open_raw
from tests.processors.conftest import Starter
from tests.processors.waiting import until

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def groups(log: LogSettings, home: Path) -> Run:
    initialise(home)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        overrides = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, "LOG__SHARDS": str(log.shards)}
        return run_module("processors.groups", *arguments, home=home, **overrides)

    return run


@processor("*")
async def fails(event: StreamEvent, delivery: Delivery) -> None:
    raise ValueError("later")


async def test_a_group_in_use_is_not_removed_unless_forced(
    stream: EventStream, working: Starter, log: LogSettings, home: Path, groups: Run
) -> None:
    client, keys, event = open_raw(log, home=home), Keys(log.prefix, log.shards), an_event()
    async with working(fails, retry_delays_ms=(3_600_000,), kind="ephemeral", ttl="1h"):
        await stream.append(event)
        await until(lambda: client.zcard(keys.delayed(keys.shard_of(event))) == 1)

    listed, refused = json.loads(groups("list", "--json").stdout), groups("remove", "g", "--yes")
    dry, unasked = groups("remove", "g", "--force", "--dry-run"), groups("remove", "g", "--force")
    forced = groups("remove", "g", "--force", "--yes", "--json")

    assert [(one["group"], one["kind"], one["pending"]) for one in listed] == [("g", "ephemeral", 0)]
    assert client.hget(keys.registry(0), "group:g") is None
    assert (refused.returncode, "group g was in use" in refused.stderr) == (1, True)
    assert dry.stdout == "group g would be removed, and with it: 0 not yet delivered, 0 in work, 1 waiting retries\n"
    assert (unasked.returncode, "say --yes where nobody can be asked" in unasked.stderr) == (2, True)
    counts = {"undelivered": 0, "pending": 0, "waiting": 1, "parked": 0, "owed": 0}
    assert json.loads(forced.stdout) == {"group": "g", "removed": True, **counts, "written": []}
    assert groups("list").stdout == "no groups\n"
    client.close()


async def test_a_worker_says_that_it_lives_and_removes_an_ephemeral_group_that_nobody_reads(
    working: Starter, log: LogSettings, home: Path
) -> None:
    client, keys, pipeline = open_raw(log, home=home), Keys(log.prefix, log.shards), open_pipeline(log, home=home)
    for group in ("left", "g"):
        await declare(pipeline, keys=keys, group=group, kind="ephemeral", ttl_ms=60_000)
        for shard in keys.all_shards():
            client.hset(keys.registry(shard), f"alive:{group}", 1)
    await pipeline.close()

    async with working(fails, kind="ephemeral", ttl="1m"):
        await until(lambda: not any(client.hexists(keys.registry(shard), "group:left") for shard in keys.all_shards()))

    assert all(int(client.hget(keys.registry(shard), "alive:g")) > 1 for shard in keys.all_shards())
    client.close()


async def test_a_purge_says_what_it_drops_and_who_did_it(stream: EventStream, log: LogSettings, home: Path, groups: Run) -> None:
    pipeline, keys = open_pipeline(log, home=home), Keys(log.prefix, log.shards)
    await declare(pipeline, keys=keys, group="g")
    await stream.append(an_event())
    await pipeline.close()

    never, dry, unasked = groups("purges"), groups("purge", "g", "--dry-run"), groups("purge", "g")
    done, again = groups("purge", "g", "--yes"), groups("purge", "g", "--yes", "--json")
    recorded = json.loads(groups("purges", "--json").stdout)

    nothing = "0 not yet delivered, 0 in work, 0 waiting retries"
    assert never.stdout == "no group was ever purged\n"
    assert dry.stdout == "of group g would be dropped: 1 not yet delivered, 0 in work, 0 waiting retries\n"
    assert (unasked.returncode, "say --yes where nobody can be asked" in unasked.stderr) == (2, True)
    assert done.stdout == f"of group g was dropped: 1 not yet delivered, 0 in work, 0 waiting retries; now there are: {nothing}\n"
    assert json.loads(again.stdout)["before"] == {"pending": 0, "undelivered": 0, "waiting": 0, "parked": 0, "owed": 0}
    assert [(one["group"], one["dropped"]["undelivered"]) for one in recorded] == [("g", 0), ("g", 1)]
    assert all("@" in one["by"] for one in recorded)


def test_entries_that_were_trimmed_beneath_a_group_are_named(log: LogSettings, home: Path, groups: Run) -> None:
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    names = ("events:default|10-0", "events:default|9-0", "events:default|a1b2:101-140")
    client.hset(keys.lost(1, "g"), mapping=dict.fromkeys(names, 1_700_000_000_000))
    client.close()

    named = json.loads(groups("lost", "g", "--json").stdout)

    assert {(one["shard"], one["stream"]) for one in named} == {(1, "events:default")}
    assert [(one["entry_id"], one["incarnation"], one["first_number"], one["last_number"]) for one in named] == [
        (None, "a1b2", 101, 140),
        ("9-0", None, None, None),
        ("10-0", None, None, None),
    ]
    shown = groups("lost", "g").stdout
    assert "2023-11-14 22:13:20 UTC" in shown
    assert "numbers 101 to 140 of incarnation a1b2, never delivered" in " ".join(shown.split())
    assert groups("lost", "other").stdout == "group other has lost nothing\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("remove", "nobody", "--yes"), 1, "there is no group nobody"),
        (("remove", "archive", "--yes"), 2, "the group archive cannot be removed"),
        (("purge", "archive", "--yes"), 2, "the group archive cannot be purged"),
        (("purge", "nobody", "--yes"), 1, "there is no group nobody"),
        (("remove", "No/name", "--yes"), 2, "does not match"),
    ],
)
def test_a_group_that_cannot_be_removed_is_one_sentence(groups: Run, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    done = groups(*arguments)

    assert done.returncode == code
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@processor("*")
async def tally(event: StreamEvent, delivery: Delivery) -> None:
    delivery.once.count("events", "[bold]")
    delivery.once.set("latest", "a value")
    delivery.once.add("types", event.event_type)


async def test_what_a_group_wrote_is_shown_over_all_shards(
    stream: EventStream, working: Starter, log: LogSettings, home: Path, groups: Run
) -> None:
    nothing = groups("once", "g").stdout
    for _ in range(8):
        await stream.append(an_event())
    once = OnceReader.open(log, home=home, group="g")
    async with working(tally):
        await until(lambda: once.counts("events") == {"[bold]": 8})
    once.close()

    shown, table = groups("once", "g", "--json"), groups("once", "g")
    removed = groups("remove", "g", "--force", "--yes")

    counts = {"counts": {"events": {"[bold]": 8}}, "values": {"latest": {"": "a value"}}, "members": {"types": ["github.push"]}}
    assert json.loads(shown.stdout) == counts
    assert all(text in table.stdout for text in ("[bold]", "github.push", "a value"))
    assert "what it wrote through delivery.once (counts:events, members:types, values:latest)" in removed.stdout
    assert nothing == groups("once", "g").stdout == "group g has written nothing\n"
