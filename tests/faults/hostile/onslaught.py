"""Owns one onslaught: so many attacks, a few at a time, on one receiver process, and the verdict over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random

from infra.settings import LogSettings
from tests.faults.hostile.attacks import Attack
from tests.faults.hostile.drawing import drawn
from tests.faults.hostile.sources import targets_in, write_home
from tests.faults.hostile.verdict import Verdict, bodies_on, compare, judge, judge_memory
from tests.faults.hostile.wire import Exchange, carry_out
from tests.faults.receiver_process import ReceiverProcess, receiver_process

AT_ONCE = 16
WARM_UP = 0.3
"""Which part of the attacks comes before the memory is looked at for the first time."""


def onslaught(
    module: str, *, home: Path, log_url: str, prefix: str, requests: int, seed: int, on_answer: Callable[[], None] = lambda: None
) -> Verdict:
    """Starts the receiver, attacks it, and judges what it did."""
    write_home(home, prefix=prefix)
    attacks = drawn(Random(seed), targets=targets_in(home), requests=requests)
    with receiver_process(module, home=home, log_url=log_url, settings={"LOG__TIMEOUT_MS": "5000"}) as running:
        verdict, exchanges = asyncio.run(attack_all(running, attacks=attacks, warm_up=int(requests * WARM_UP), on_answer=on_answer))
    compare(verdict, exchanges=exchanges, stored=bodies_on(LogSettings(url=log_url, prefix=prefix), home=home))
    return verdict


async def attack_all(
    running: ReceiverProcess, *, attacks: Iterable[Attack], warm_up: int = 0, on_answer: Callable[[], None] = lambda: None
) -> tuple[Verdict, list[Exchange]]:
    """Carries all of them out; its memory may not grow after so many, and is within its bound at the end."""
    verdict, exchanges, coming = Verdict(), list[Exchange](), iter(attacks)
    warm_kb, children = running.memory_kb, running.children

    async def go_on() -> None:
        nonlocal warm_kb
        for chosen in coming:
            exchanges.append(await _one(chosen, running=running, verdict=verdict))
            on_answer()
            if len(exchanges) == warm_up:
                warm_kb = running.memory_kb

    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    _judge_process(verdict, running=running, children=children, warm_kb=warm_kb)
    return verdict, exchanges


def _judge_process(verdict: Verdict, *, running: ReceiverProcess, children: list[int], warm_kb: int) -> None:
    if not running.is_alive or running.children != children:
        verdict.blame("a receiver died")
        return
    judge_memory(verdict, resident_kb=running.resident_kb, warm_kb=warm_kb)


async def _one(chosen: Attack, *, running: ReceiverProcess, verdict: Verdict) -> Exchange:
    exchange = Exchange(chosen)
    with suppress(ConnectionRefusedError):  # It died; that is found at the end.
        exchange = await carry_out(chosen, port=running.port)
    judge(verdict, exchange)
    return exchange
