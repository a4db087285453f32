"""Owns which attacks come, and in which order. Chosen by a seeded Random, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, repeat
from random import Random

from tests.faults.hostile.attacks import (
    Attack,
    broken_proof,
    chunked,
    compressed,
    cut_off,
    doubled_proof,
    evil_tenant,
    forged,
    garbage,
    genuine,
    genuine_junk,
    large_head,
    mutated_head,
    nasty_header,
    odd_method,
    odd_path,
    other_body,
    other_route,
    slow,
    smuggling,
    spoilt_signature,
    too_large,
)
from tests.faults.hostile.particular import batch, misfit, other_letters, repeated_member, unsigned_member
from tests.faults.hostile.questions import asks_in_body, asks_in_head, question, signed_question
from tests.faults.hostile.sources import Target
from tests.faults.hostile.spoiling import of_signature

Kind = Callable[[Random, Target], Attack]

KINDS: Mapping[Kind, int] = {
    genuine: 20, genuine_junk: 20, forged: 8, other_body: 8, unsigned_member: 2, other_letters: 2, repeated_member: 2, misfit: 2,
    batch: 6, broken_proof: 16,
    doubled_proof: 4, nasty_header: 10, large_head: 2, smuggling: 12, chunked: 10, odd_path: 8, evil_tenant: 4, other_route: 3,
    odd_method: 4, question: 4, signed_question: 2, garbage: 1, mutated_head: 10, too_large: 2, compressed: 5, cut_off: 6, slow: 1,
}  # fmt: skip
"""With their weights: slow ones are rare, since each takes as long as the receiver's patience."""
OF_PROOFS: tuple[Kind, ...] = (genuine, forged, other_body, doubled_proof)
"""What every target meets, beside every way to spoil its signature."""


def _signs_body(target: Target) -> bool:
    """Who shows a token proves nothing about where his request ends."""
    return target.signs_body


def _signs_members(target: Target) -> bool:
    return target.signs_members


FITTING: Mapping[Kind, Callable[[Target], bool]] = {
    **dict.fromkeys((smuggling, chunked, mutated_head, nasty_header), _signs_body),
    **dict.fromkeys((unsigned_member, other_letters, repeated_member), _signs_members),
    misfit: lambda target: target.source.schemas is not None,
    batch: lambda target: target.source.splits,
    question: asks_in_head,
    signed_question: asks_in_body,
}
"""What an attack says of the targets that it is for; the others are for all."""


def drawn(rng: Random, *, targets: list[Target], requests: int) -> Iterator[Attack]:
    """Every target with everything that is done to proofs, as far as half of the requests go; then one of every kind; then any."""
    grid = proofs_of(targets)
    rng.shuffle(grid)
    kinds = chain(KINDS, (rng.choices(list(KINDS), list(KINDS.values()))[0] for _ in repeat(None)))
    drawings = (kind(rng, rng.choice(_fitting(kind, targets=targets))) for kind in kinds)
    return islice(chain((kind(rng, target) for kind, target in grid[: requests // 2]), drawings), requests)


def proofs_of(targets: list[Target]) -> list[tuple[Kind, Target]]:
    """Everything that is done to proofs, of every target."""
    spoilt = [
        (partial(spoilt_signature, spoiling=spoiling), target)
        for target in targets
        for spoiling in of_signature(target.source.scheme).values()
    ]
    return [*((kind, target) for target in targets for kind in OF_PROOFS), *spoilt]


def _fitting(kind: Kind, *, targets: list[Target]) -> list[Target]:
    return [target for target in targets if kind not in FITTING or FITTING[kind](target)]
