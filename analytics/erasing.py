"""Owns erasing events from everywhere: the log, the tables, the files beneath both. Everything that was accepted before it begins.

First everything is archived, so that each event has a row to go by. Then it goes from the log, and after that from the tables, gold too,
`events` last: whoever is killed in between finds the rows by the same condition again and goes on. Then the log's files are written anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics import shredding
from analytics.archive import Archive, following, move
from analytics.chains import Chain, Chains
from analytics.erase_selection import Selection
from analytics.gold_erasing import erase_from_gold
from analytics.kept import existing, kept
from analytics.owed_numbers import note_owed
from analytics.owners import of_rows, with_more
from analytics.requests import Request, Requests, Result, Tell
from analytics.statements import reading_rows_by, refuse_all_but_a_condition
from infra.failpoints import reach
from infra.spools import folders, read_spools
from infra.streams.erasing import Chosen, Erasing
from infra.streams.replays import Replays
from infra.streams.rewriting import rewrite_files
from schemas.errors import RequestFailed, Unavailable

SPOOLS_WITHIN_S = 60.0
VIEW = "events_to_erase"
# A decision about a dead letter or a refused request names it so, and has no owner of its own.
NAMED_BY = {"dead_letters": "letter_id", "quarantine": "request_id"}


def act(chains: Chains, request: Request, tell: Tell) -> Result:
    """What `hooklake erase` asks for; with `dry_run` everything is counted, and nothing changed."""
    selection, is_now = Selection.of(request.arguments), bool(request.arguments.get("now"))
    archive = chains.events.open()
    refuse_wrong_condition(chains, selection)
    wait_for_spools(request, chains=chains)
    tell("archiving what there is", 0, 0)
    chains.drain()
    with closing(Erasing.open(archive.log_settings, home=archive.home)) as log:
        chosen = chosen_in_log(log, chains=chains, selection=selection)
        tell("counting", 0, 0)
        requests = Requests(archive.home)
        # What was there when it was begun for the first time: a second beginning finds only what the first has left.
        found = requests.noted(request.name) or counted(log, chosen, chains=chains, selection=selection)
        if request.arguments.get("dry_run"):
            return {"dry_run": True, **found}
        refuse_beside_replays(archive, has_begun=requests.noted(request.name) is not None)
        requests.note(request.name, content=found)
        reach("erase.before_log")
        log.erase(chosen, tell=lambda gone: tell("erasing from the log", gone, 0))
        # What a worker has given up since, or what has come due, stood above the archived mark and was left alone.
        chains.drain()
        log.erase(chosen_in_log(log, chains=chains, selection=selection))
        reach("erase.before_rows")
        note_owed(log, archive=archive, selection=selection)
        erase_from_tables(chains, selection=selection, tell=tell)
        refuse_beside_replays(archive, has_begun=True)
        reach("erase.before_rewrite")
        tell("rebuilding the log's streams", 0, 0)
        unbuilt = log.rebuild() if is_now else {}
        marked = [f"bytes in {stream}, which go when it is trimmed ({reason})" for stream, reason in unbuilt.items()]
        tell("rewriting the log's files", 0, 0)
        rewritten = rewrite_files(archive.log_settings, home=archive.home)
        reach("erase.before_bytes")
        left = shredding.shred(kept(chains), tell=tell) if is_now else []
        reach("erase.before_record")
        log.record(by=request.by, name=request.name, facts={**selection.described(), **_flat(found), "now": int(is_now)})
    return {"dry_run": False, **found, "rewritten": rewritten.done, "left": [*marked, *rewritten.left, *left, *_damaged(chains)]}


def refuse_wrong_condition(chains: Chains, selection: Selection) -> None:
    """Raises ConfigError for SQL that is no condition on `events`, or would choose other rows another time."""
    if selection.where:
        archive = chains.events.open()
        archive.table.dataframe().createOrReplaceTempView(VIEW)
        refuse_all_but_a_condition(archive.spark, condition=selection.where, table=VIEW)


def wait_for_spools(request: Request, *, chains: Chains) -> None:
    """What waits in a spool has no row yet. A receiver empties it by itself; raises Unavailable until then, RequestFailed if none does."""
    full = [folder.receiver for folder in folders(chains.events.open().home) if folder.segments()]
    if not full:
        return
    sentence = f"accepted events wait in the spool of {', '.join(full)}, and are to be erased too"
    if time.time() - request.asked_ms / 1000 > SPOOLS_WITHIN_S:
        raise RequestFailed(f"{sentence}: run a receiver until they are on the log, then ask again; nothing was erased")
    raise Unavailable(sentence)


def refuse_beside_replays(archive: Archive, *, has_begun: bool) -> None:
    """A replay has events in hand that it would put back. Raises RequestFailed, and Unavailable once something is gone."""
    with closing(Replays.open(archive.log_settings, home=archive.home)) as replays:
        open_ones = [replay for replay in replays.all() if not replay.is_done]
    if not open_ones:
        return
    one = open_ones[0]
    sentence = f"replay {one.id} into group {one.group} is not finished, and might hand out again what is erased"
    if has_begun:
        raise Unavailable(sentence)
    raise RequestFailed(
        f"{sentence}: let it end (`hooklake replay --resume {one.id}` if it was interrupted) or end it with `hooklake replay cancel "
        f"{one.id}`, then ask again; nothing was erased"
    )


def chosen_in_log(log: Erasing, *, chains: Chains, selection: Selection) -> Chosen:
    """A condition on rows becomes the ids of events that the log has and whose rows fit."""
    if not selection.needs_ids:
        ids = {selection.event} if selection.event else None
        return Chosen(selection.tenant, selection.source, ids)
    archive = chains.events.open()
    there = archive.spark.createDataFrame([(one,) for one in set(log.event_ids())], "id STRING")
    fitting = archive.table.dataframe().where(selection.condition()).join(there, on="id", how="left_semi")
    with reading_rows_by(selection.where, location=archive.table.location):
        return Chosen(event_ids={row.id for row in fitting.select("id").collect()})


def counted(log: Erasing, chosen: Chosen, *, chains: Chains, selection: Selection) -> dict[str, Any]:
    """What would go now, place by place."""
    table = chains.events.open().table
    with reading_rows_by(selection.where, location=table.location):
        events = table.dataframe()
        tables = {chain.table.name: victims(chain, selection=selection, events=events).count() for chain in existing(chains)}
    return {"log": dict(log.count(chosen)), "tables": tables}


def victims(chain: Chain, *, selection: Selection, events: DataFrame) -> DataFrame:
    """The rows of a table that go."""
    rows, name = chain.open().table.dataframe(), chain.table.name
    if name == "events":
        return rows.where(selection.condition())
    # An outcome has ids and times of an event, and nothing of its own; an alias names a tenant.
    fitting = rows.where(_owned(selection)).where("kind = 'alias'" if name == "outcomes" else "TRUE")
    if selection.needs_ids:
        fitting = fitting.join(events.where(selection.condition()).select(F.col("id").alias("event_id")), on="event_id", how="left_semi")
    if name not in NAMED_BY:
        return fitting
    return rows.join(fitting.select(NAMED_BY[name]).distinct(), on=NAMED_BY[name], how="left_semi")


def _owned(selection: Selection) -> Column:
    """By the columns that every table has; a row of outcomes names nobody unless it is an alias."""
    asked = {"tenant_id": selection.tenant, "source": selection.source, "event_id": selection.event}
    condition = F.lit(True)
    for name, value in asked.items():
        condition = condition & (F.col(name) == value) if value else condition
    return condition


def erase_from_tables(chains: Chains, *, selection: Selection, tell: Tell) -> None:
    """`events` last: by its rows the others are found, and what gold has of them."""
    events, archive = chains.events, chains.events.open()
    for chain in reversed(existing(chains)):
        if chain is events:
            reach("erase.before_gold")
            tell("erasing from gold", 0, 0)
            erase_from_gold(archive, selection=selection)
            reach("erase.before_events")
        tell(f"erasing from {chain.table.name}", 0, 0)
        erase_rows(chain, selection=selection, events=archive.table.dataframe())


def erase_rows(chain: Chain, *, selection: Selection, events: DataFrame) -> int:
    """In one commit of the table's chain, which says how many accepted events went; returns how many rows."""
    archive = chain.open()
    going = victims(chain, selection=selection, events=events)
    with reading_rows_by(selection.where, location=archive.table.location):
        rows = going.count()
    if not rows:
        return 0
    last = chain.last = chain.last or archive.start()
    erased = with_more(last.erased, of_rows(going)) if chain.table.name == "events" else {}
    commit = replace(following(last), lives=last.lives, erased=erased)
    table = DeltaTable.forPath(archive.spark, archive.table.location)
    archive.check_lease()
    chain.last = None  # Should it fail: whether it was committed only the table knows.
    if chain.table.name == "events":
        chain.last = archive.table.change(lambda: table.delete(selection.condition()), commit=commit)
    else:
        at = going.select("stream", "incarnation", "entry_id", "sequence").distinct()
        same = " AND ".join(f"old.{name} <=> gone.{name}" for name in at.columns)
        merge = table.alias("old").merge(at.alias("gone"), same).whenMatchedDelete()
        chain.last = archive.table.change(merge.execute, commit=commit)
    move(archive.log, chain.last)
    return rows


def _flat(found: Mapping[str, Mapping[str, int]]) -> dict[str, str | int]:
    return {f"{kind}:{place}": count for kind, places in found.items() for place, count in places.items() if count}


def _damaged(chains: Chains) -> list[str]:
    """Bytes of which nobody can tell whose they are."""
    spools = read_spools(chains.events.open().home)
    return [f"{spool.damaged} damaged places of the spool of {spool.receiver}: look at them yourself" for spool in spools if spool.damaged]
