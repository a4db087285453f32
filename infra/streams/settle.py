"""Owns the settling of deliveries on the log: ack, retry, park or dead letter, for many deliveries in one call per stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from infra.streams.entries import Fields
from infra.streams.keys import Keys
from infra.streams.lease_calls import LeaseCall, lost_by
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease


@dataclass(frozen=True, slots=True)
class Ack:
    """Done; the group is finished with the entry."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Hand it to the same group again after a while of server time.

    What failed travels with the entry if it is the first failure, so that a dead letter can tell how it began.
    """

    delay_ms: int
    retry_count: int
    error: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Make it a dead letter that says why."""

    processor: str
    reason: str
    error: str
    traceback: str
    attempts: int
    dead_at_ms: int


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Keep it pending with this consumer, which tries it again after a while: what comes after it in its lane must wait.

    `delivery_count` is what the log counts from now on, so that whoever takes it over knows how often it was tried.
    """

    delay_ms: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Park:
    """Put it aside, whole, for a worker that can read its version; `parked.py` takes it back."""

    retry_count: int


Settlement = Ack | RetryLater | HoldBack | GiveUp | Park

FIRST_FIELDS = ("first_error", "first_traceback")
"""The fields in which the first failure travels with a retried entry, and stands in its dead letter."""

Decision = tuple[Lease, Settlement]


async def settle(pipeline: Pipeline, *, keys: Keys, group: str, consumer: str, decisions: Sequence[Decision]) -> list[Lease]:
    """Carries out all decisions; returns the leases that had been lost, whose decisions count for nothing."""
    return await lost_by(pipeline, calls=settle_calls(decisions, keys=keys, group=group, consumer=consumer))


def settle_calls(decisions: Sequence[Decision], *, keys: Keys, group: str, consumer: str) -> list[LeaseCall]:
    """The script calls that carry the decisions out. Pure."""
    calls = []
    for stream, chosen in by_stream(decisions).items():
        shard = chosen[0][0].shard
        at = [stream, keys.retry(shard, group), keys.delayed(shard), keys.delayed_bodies(shard), keys.dead(shard), keys.ledger(shard)]
        at.append(keys.parked(shard, group))
        calls.append(LeaseCall("settle", [lease for lease, _ in chosen], at, _arguments(chosen, group=group, consumer=consumer)))
    return calls


def by_stream(decisions: Sequence[tuple[Lease, Settlement]]) -> dict[str, list[tuple[Lease, Settlement]]]:
    found: dict[str, list[tuple[Lease, Settlement]]] = {}
    for decision in decisions:
        found.setdefault(decision[0].stream, []).append(decision)
    return found


def _arguments(decisions: Sequence[tuple[Lease, Settlement]], *, group: str, consumer: str) -> list[str | bytes | int]:
    arguments: list[str | bytes | int] = [group, consumer]
    for lease, settlement in decisions:
        # Nearly all are acks.
        action = ("a", "") if type(settlement) is Ack else _action(settlement, first=_first_failure(lease.fields))
        arguments += (lease.entry_id, lease.delivery_count, *action)
    return arguments


def _action(settlement: Settlement, *, first: dict[str, str]) -> tuple[str, str | bytes]:
    match settlement:
        case Ack():
            return "a", ""
        case RetryLater(delay_ms, retry_count):
            begins = _as_first(settlement) if settlement.error and not first else {}
            return "r", f"{delay_ms}:{retry_count}:".encode() + _packed(begins)
        case HoldBack(_, delivery_count):
            return "h", str(delivery_count)
        case Park(retry_count):
            return "p", str(retry_count)
        case GiveUp():
            return "d", _packed(
                {
                    "processor": settlement.processor, "reason": settlement.reason, "error": settlement.error,
                    "traceback": settlement.traceback, **(first or _only_or_unknown(settlement)),
                    "attempts": str(settlement.attempts), "dead_at": str(settlement.dead_at_ms),
                }
            )  # fmt: skip


def _first_failure(fields: Fields) -> dict[str, str]:
    """What an earlier retry wrote into the entry; a foreign entry may have such fields too, but has not been retried."""
    if b"retry_count" not in fields:
        return {}
    return {name: fields[name.encode()].decode(errors="replace") for name in FIRST_FIELDS if name.encode() in fields}


def _as_first(failed: RetryLater | GiveUp) -> dict[str, str]:
    return dict(zip(FIRST_FIELDS, (failed.error, failed.traceback), strict=True))


def _only_or_unknown(failed: GiveUp) -> dict[str, str]:
    """An earlier attempt left no error where its worker died, or where the entry was held back: nothing is then said of it."""
    return _as_first(failed) if failed.attempts <= 1 else dict.fromkeys(FIRST_FIELDS, "")


def _packed(fields: dict[str, str]) -> bytes:
    return orjson.dumps([part for pair in fields.items() for part in pair])
