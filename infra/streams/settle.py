"""Owns the settling of deliveries on the log: ack, retry, park or dead letter, for many deliveries in one call per stream."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import orjson

from infra.streams.entries import Fields
from infra.streams.keys import Keys
from infra.streams.lease_calls import LeaseCall, lost_by
from infra.streams.once import OnceWrite
from infra.streams.outcomes import pack
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease
from infra.streams.scripts import Argument
from schemas.outcome import Ran, Step


class Ack(NamedTuple):
    """Done; the group is finished with the entry. Made for nearly every delivery, so a tuple."""

    ran: Ran | None = None


# A quarter of what its constructor costs.
acked: Callable[[tuple[Ran]], Ack] = functools.partial(tuple.__new__, Ack)


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Hand it to the same group again after a while of server time.

    What failed travels with the entry if it is the first failure, so that a dead letter can tell how it began.
    """

    delay_ms: int
    retry_count: int
    error: str = ""
    traceback: str = ""
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Make it a dead letter that says why."""

    processor: str
    reason: str
    error: str
    traceback: str
    attempts: int
    dead_at_ms: int
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class AckOnce:
    """Done, and these writes are made in the same step: all of them, or none, and then it is a dead letter that says why."""

    event_id: str
    writes: tuple[OnceWrite, ...]
    otherwise: GiveUp
    """The letter, but for its reason and its error."""

    @property
    def ran(self) -> Ran | None:
        return self.otherwise.ran


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Keep it pending with this consumer, which tries it again after a while: what comes after it in its lane must wait.

    `delivery_count` is what the log counts from now on, so that whoever takes it over knows how often it was tried.
    """

    delay_ms: int
    delivery_count: int
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class Park:
    """Put it aside, whole, for a worker that can read its version; `parked.py` takes it back."""

    retry_count: int
    ran: None = None


Settlement = Ack | AckOnce | RetryLater | HoldBack | GiveUp | Park
"""What is decided about a delivery; `ran` is the attempt to record, if there was one."""

FIRST_FIELDS = ("first_error", "first_traceback")
"""The fields in which the first failure travels with a retried entry, and stands in its dead letter."""

Decision = tuple[Lease, Settlement]

NOTHING_RAN = Ran("", "", 0, 0, 0.0)
"""For a delivery that is settled without an attempt: an entry that is no event, or one that waits for a circuit."""
STEPS: Mapping[type, Step] = MappingProxyType(
    {Ack: "ack", AckOnce: "ack", RetryLater: "retry", HoldBack: "retry", GiveUp: "dead_letter", Park: "park"}
)


async def settle(pipeline: Pipeline, *, keys: Keys, group: str, consumer: str, decisions: Sequence[Decision]) -> list[Lease]:
    """Carries out all decisions; returns the leases that had been lost, whose decisions count for nothing."""
    return await lost_by(pipeline, calls=settle_calls(decisions, keys=keys, group=group, consumer=consumer))


async def settle_in_stream(pipeline: Pipeline, *, keys: Keys, group: str, consumer: str, decisions: list[Decision]) -> list[Lease]:
    """The same for deliveries of one stream."""
    return await lost_by(pipeline, calls=[_settle_call(decisions, keys=keys, group=group, consumer=consumer)])


def settle_calls(decisions: Sequence[Decision], *, keys: Keys, group: str, consumer: str) -> list[LeaseCall]:
    """The script calls that carry the decisions out. Pure."""
    return [_settle_call(chosen, keys=keys, group=group, consumer=consumer) for chosen in by_stream(decisions).values()]


def _settle_call(decisions: list[Decision], *, keys: Keys, group: str, consumer: str) -> LeaseCall:
    """Plain acks come first, since nearly all are: of them the script needs nothing but the entry id."""
    plain: list[Decision] = []
    others: list[Decision] = []
    for decision in decisions:
        lease, settlement = decision
        (plain if type(settlement) is Ack and lease.delivery_count == 1 else others).append(decision)
    first, _ = decisions[0]
    at = settle_keys(keys, stream=first.stream, shard=first.shard, group=group)
    places = KeyPlaces(at, keys=keys, shard=first.shard, group=group)
    arguments: list[Argument] = [group, consumer, _record(plain + others), len(plain), *[lease.entry_id for lease, _ in plain]]
    for lease, settlement in others:
        action = _action(settlement, first=_first_failure(lease.fields), places=places)
        arguments += (lease.entry_id, lease.delivery_count, *action)
    return LeaseCall("settle", [lease for lease, _ in plain + others], at, arguments)


def settle_keys(keys: Keys, *, stream: str, shard: int, group: str) -> list[str]:
    return [
        stream, keys.retry(shard, group), keys.delayed(shard), keys.delayed_bodies(shard), keys.dead(shard), keys.ledger(shard),
        keys.parked(shard, group), keys.outcomes(shard),
    ]  # fmt: skip


def _record(decisions: Sequence[Decision]) -> bytes:
    """What is recorded about a call, in the order of its deliveries; empty when there was no attempt at all."""
    settled = [(settlement.ran or NOTHING_RAN, STEPS[type(settlement)]) for _, settlement in decisions]
    return pack(settled) if any(ran is not NOTHING_RAN for ran, _ in settled) else b""


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


def by_stream(decisions: Sequence[Decision]) -> dict[str, list[Decision]]:
    found: dict[str, list[Decision]] = {}
    for decision in decisions:
        stream = decision[0].stream
        if stream in found:
            found[stream].append(decision)
        else:
            found[stream] = [decision]
    return found


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
