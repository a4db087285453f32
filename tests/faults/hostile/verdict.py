"""Owns what must hold after an onslaught, and the sentences for what did not. Pure but for reading the log."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from infra.settings import LogSettings
from infra.streams.entries import decode
from infra.streams.keys import Keys
from tests.faults.hostile.wire import Exchange
from tests.infra.streams.raw import open_raw

MOST_DRIFT_KB = 50 * 1024
MOST_RESIDENT_KB = 150_000_000 // 1024
"""Of one receiver: 150 MB, as its benchmark has it."""
ACCEPTED = {202, 200, 204}
"""As the sender needs it."""
SHOWN = 5


@dataclass(slots=True)
class Verdict:
    """What an onslaught showed; `faults` is empty when everything held."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    stored: int = 0
    drift_kb: int = 0
    resident_kb: int = 0
    """Of the largest receiver, at the end."""
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def blame(self, fault: str, about: object = "") -> None:
        self.faults[fault] += 1
        seen = self.examples.setdefault(fault, [])
        if len(seen) < SHOWN:
            seen.append(str(about)[:400])


def judge(verdict: Verdict, exchange: Exchange) -> None:
    """One exchange: no error of ours, no hang, and nothing accepted that was not signed."""
    attack = exchange.attack
    verdict.requests += 1
    verdict.statuses.update(exchange.statuses or [0])
    about = f"{attack.kind}: {exchange.statuses} to {attack.data[:300]!r}"
    if any(status >= 500 for status in exchange.statuses):
        verdict.blame("a 5xx", about)
    if exchange.hung:
        verdict.blame("neither an answer nor an end", about)
    if attack.body is None and exchange.event_ids:
        verdict.blame("accepted though it was not signed", about)
    if len(exchange.event_ids) > 1:
        verdict.blame("more accepted than was sent", about)
    if attack.must_be_accepted and not set(exchange.statuses[:1]) & ACCEPTED:
        verdict.blame("a genuine request was not accepted", about)


def judge_memory(verdict: Verdict, *, resident_kb: list[int], warm_kb: int) -> None:
    """What each receiver has at the end, and what all of them had together when they were warm."""
    verdict.drift_kb, verdict.resident_kb = sum(resident_kb) - warm_kb, max(resident_kb)
    if verdict.drift_kb > MOST_DRIFT_KB:
        verdict.blame("its memory grows", f"{verdict.drift_kb} KiB")
    if verdict.resident_kb > MOST_RESIDENT_KB:
        verdict.blame("its memory is above 150 MB", f"{verdict.resident_kb} KiB")


def compare(verdict: Verdict, *, exchanges: list[Exchange], stored: dict[str, bytes]) -> None:
    """What was accepted is on the log, byte for byte, and nothing else is but what somebody signed and left before the answer."""
    verdict.stored = len(stored)
    signed = {digest(exchange.attack.body) for exchange in exchanges if exchange.attack.body is not None}
    accepted: set[str] = set()
    for exchange in exchanges:
        for event_id in exchange.event_ids:
            accepted.add(event_id)
            body = exchange.attack.body
            if event_id not in stored:
                verdict.blame("accepted and not stored", event_id)
            elif body is not None and digest(stored[event_id]) != digest(body):
                verdict.blame("stored otherwise than it was sent", f"{exchange.attack.kind}: {body[:100]!r}, {stored[event_id][:100]!r}")
    for event_id in stored.keys() - accepted:
        if digest(stored[event_id]) not in signed:
            verdict.blame("stored though nobody signed it", stored[event_id][:200])


def digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def bodies_on(log: LogSettings, *, home: Path) -> dict[str, bytes]:
    """The body of every event on the log, by event id; of a part, the whole body that its siblings make."""
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    events = [decode(fields) for stream in streams for _, fields in client.xrange(stream)]
    client.close()
    siblings: dict[str, dict[int, bytes]] = {}
    for event in events:
        if part := event.part:
            piece = part.before.encode() + event.payload + part.after.encode()
            siblings.setdefault(part.body_sha256, {})[part.number] = piece
    wholes = {name: b"".join(piece for _, piece in sorted(pieces.items())) for name, pieces in siblings.items()}
    return {event.id: wholes[event.part.body_sha256] if event.part else event.payload for event in events}
