"""Owns the books of each tenant's source: where everything is that it was told is accepted.

    accepted = archived + in the log above the archived mark + scheduled + in spools + erased + expired + missing

Everything but `missing` is counted by somebody else than who counted `accepted`. What is missing was lost, or was accepted a second time
and found by the archive to have a row: how many those are is known of the whole log, so that all that is missing must be as many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.spools import folders, waiting_records
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.ledger import Numbers, numbers_of
from infra.streams.packed import unpack
from infra.streams.pipelining import Pipeline
from schemas.errors import MalformedEntry

AT_ONCE = 200
# Who is so far behind is told of the whole log only: to count would take longer than anybody looks at a screen.
MOST_COUNTED = 20_000
MOST_BYTES = 64 * 1024 * 1024

Owner = tuple[str, str]
"""Tenant and source."""
KINDS = {"accepted": "accepted", "scheduled": "scheduled", "erased_scheduled": "erased"}
NOTED = {"rows:events": "rows", "erased:events": "erased", "expired:events": "expired"}
"""By the archive, in the ledger of shard 0."""


@dataclass(frozen=True, slots=True)
class SourceBooks:
    """One source of one tenant, over all shards."""

    tenant: str
    source: str
    accepted: int = 0
    rows: int = 0
    """Rows that were ever archived."""
    in_log: int = 0
    scheduled: int = 0
    in_spools: int = 0
    erased: int = 0
    """Rows that were erased, and events that were while they waited for their time."""
    erased_rows: int = 0
    expired: int = 0

    @property
    def archived(self) -> int:
        return self.rows - self.erased_rows - self.expired

    @property
    def missing(self) -> int:
        """Lost, or accepted twice; below 0, there is more than was accepted."""
        return self.accepted - self.archived - self.in_log - self.scheduled - self.in_spools - self.erased - self.expired

    def as_dict(self) -> dict[str, str | int]:
        terms = ("tenant", "source", "accepted", "archived", "in_log", "scheduled", "in_spools", "erased", "expired", "missing")
        return {name: getattr(self, name) for name in terms}


def from_ledgers(ledgers: Iterable[Mapping[bytes, bytes]]) -> dict[Owner, SourceBooks]:
    """What the ledgers of all shards say; pure."""
    found: dict[Owner, Counter[str]] = {}
    for ledger in ledgers:
        for name, value in ledger.items():
            for kind, owner in _terms(name.decode(errors="replace")):
                found.setdefault(owner, Counter())[kind] += int(value)
    return {(tenant, source): SourceBooks(tenant, source, **dict(counts)) for (tenant, source), counts in found.items()}


def _terms(field: str) -> list[tuple[str, Owner]]:
    """Which terms a field of the ledger counts for, and whose they are."""
    kind, _, rest = field.partition(":")
    of_table, _, owner = rest.partition(":")
    if f"{kind}:{of_table}" in NOTED and ":" in owner:
        term = NOTED[f"{kind}:{of_table}"]
        return [(each, _owner(owner)) for each in ((term, "erased_rows") if term == "erased" else (term,))]
    return [(KINDS[kind], _owner(rest))] if kind in KINDS and ":" in rest else []


def _owner(text: str) -> Owner:
    tenant, _, source = text.partition(":")
    return tenant, source


async def in_log(pipeline: Pipeline, *, keys: Keys, ledgers: Mapping[int, dict[bytes, bytes]]) -> Counter[Owner] | None:
    """Entries that the archive has not come to, by their numbers; None when there are very many."""
    found: Counter[Owner] = Counter()
    for shard, ledger in ledgers.items():
        numbers = numbers_of(ledger)
        for name in EVENT_STREAMS:
            lives = {incarnation: known for (stream, incarnation), known in numbers.items() if stream == name}
            if all(known.given <= known.archived for known in lives.values()):
                continue
            archived, start = {incarnation: known.archived for incarnation, known in lives.items()}, _start(ledger, name=name, lives=lives)
            while replies := await pipeline.run("owners", keys=[keys.events(shard, name)], args=[start, AT_ONCE]):
                found.update(_waiting(replies, archived=archived))
                start = f"({replies[-1][0].decode()}"
                if found.total() > MOST_COUNTED:
                    return None
    return found


def _start(ledger: Mapping[bytes, bytes], *, name: str, lives: Mapping[str, Numbers]) -> str:
    """Behind the archived mark; from the beginning while entries of a past incarnation are not archived. Pure."""
    present = ledger.get(b"incarnation", b"").decode()
    mark = ledger.get(f"archived:{name}:{present}".encode(), b"").partition(b"|")[0].decode()
    is_behind = any(known.given > known.archived for incarnation, known in lives.items() if incarnation != present)
    return f"({mark}" if mark and not is_behind else "-"


def _waiting(replies: Iterable[Any], *, archived: Mapping[str, int]) -> Iterable[Owner]:
    for _, _, tenant, source, incarnation, number in replies:
        of = incarnation.decode(errors="replace")
        if of in archived and number.isdigit() and int(number) > archived[of]:
            yield tenant.decode(errors="replace"), source.decode(errors="replace")


def with_term(books: Mapping[Owner, SourceBooks], term: str, counts: Mapping[Owner, int]) -> dict[Owner, SourceBooks]:
    """The books with one more term counted; what waits in a spool was accepted too, though no ledger has it. Pure."""
    found = dict(books)
    for owner, count in counts.items():
        before = found.get(owner, SourceBooks(*owner))
        accepted = before.accepted + (count if term == "in_spools" else 0)
        found[owner] = replace(before, accepted=accepted, **{term: count})  # type: ignore[arg-type]
    return found


def in_spools(home: Path) -> Counter[Owner] | None:
    """What receivers of this home keep until the log takes it; None when that is very much."""
    found: Counter[Owner] = Counter()
    size_bytes = 0
    for record in (record for folder in folders(home) for record in waiting_records(folder)):
        size_bytes += record.end - record.offset
        if size_bytes > MOST_BYTES:
            return None
        with suppress(MalformedEntry):  # Of another release; whoever empties the spool keeps it aside.
            found.update((event.tenant_id, event.source) for event in unpack(record.payload))
    return found


async def read_books(pipeline: Pipeline, *, keys: Keys, ledgers: Mapping[int, dict[bytes, bytes]]) -> dict[Owner, SourceBooks] | None:
    """By tenant and source, without spools; None while too many wait for the archive to say whose they are."""
    waiting = await in_log(pipeline, keys=keys, ledgers=ledgers)
    return None if waiting is None else with_term(from_ledgers(ledgers.values()), "in_log", waiting)
