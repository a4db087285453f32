"""Owns the settling of deliveries on the log: ack, retry, park or dead letter, for many deliveries in one call per stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from infra.streams.entries import Fields
from infra.streams.keys import Keys
from infra.streams.lease_calls import LeaseCall, lost_by
from infra.streams.once import OnceWrite
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
class AckOnce:
    """Done, and these writes are made in the same step: all of them, or none, and then it is a dead letter that says why."""

    event_id: str
    writes: tuple[OnceWrite, ...]
    otherwise: GiveUp
    """The letter, but for its reason and its error."""


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


Settlement = Ack | AckOnce | RetryLater | HoldBack | GiveUp | Park

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
        places = KeyPlaces(at, keys=keys, shard=shard, group=group)
        arguments = _arguments(chosen, group=group, consumer=consumer, places=places)
        calls.append(LeaseCall("settle", [lease for lease, _ in chosen], at, arguments))
    return calls


class KeyPlaces:
    """Where the keys of a call's writes stand among its KEYS: they are declared like all others, and added when they are needed."""

    def __init__(self, at: list[str], *, keys: Keys, shard: int, group: str) -> None:
        self._at = at
        self._keys = keys
        self._shard = shard
        self._group = group
        self._places: dict[str, int] = {}

    @property
    def index(self) -> int:
        return self._place(self._keys.once(self._shard, self._group))

    def of(self, write: OnceWrite) -> int:
        return self._place(self._keys.once_key(self._shard, self._group, kind=write.kind, name=write.name))

    def _place(self, key: str) -> int:
        if key not in self._places:
            self._at.append(key)
            self._places[key] = len(self._at)
        return self._places[key]


def by_stream(decisions: Sequence[tuple[Lease, Settlement]]) -> dict[str, list[tuple[Lease, Settlement]]]:
    found: dict[str, list[tuple[Lease, Settlement]]] = {}
    for decision in decisions:
        found.setdefault(decision[0].stream, []).append(decision)
    return found


def _arguments(decisions: Sequence[tuple[Lease, Settlement]], *, group: str, consumer: str, places: KeyPlaces) -> list[str | bytes | int]:
    arguments: list[str | bytes | int] = [group, consumer]
    for lease, settlement in decisions:
        # Nearly all are acks.
        action = ("a", "") if type(settlement) is Ack else _action(settlement, first=_first_failure(lease.fields), places=places)
        arguments += (lease.entry_id, lease.delivery_count, *action)
    return arguments


def _action(settlement: Settlement, *, first: dict[str, str], places: KeyPlaces) -> tuple[str, str | bytes]:
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
        case AckOnce():
            return "o", _packed_writes(settlement, first=first, places=places)
        case GiveUp():
            return "d", _packed({"reason": settlement.reason, "error": settlement.error, **_letter(settlement, first=first)})


def _letter(given_up: GiveUp, *, first: dict[str, str]) -> dict[str, str]:
    """What the letter says besides its reason and its error."""
    return {
        "processor": given_up.processor,
        "traceback": given_up.traceback,
        **(first or _only_or_unknown(given_up)),
        "attempts": str(given_up.attempts),
        "dead_at": str(given_up.dead_at_ms),
    }


def _packed_writes(settlement: AckOnce, *, first: dict[str, str], places: KeyPlaces) -> bytes:
    letter = [part for pair in _letter(settlement.otherwise, first=first).items() for part in pair]
    writes = [{"key": places.of(write), **write._asdict()} for write in settlement.writes]
    return orjson.dumps({"index": places.index, "event": settlement.event_id, "writes": writes, "letter": letter})


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
