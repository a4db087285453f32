"""The link to the replica is cut, and then the primary dies: what was accepted is on the replica. The control asks no replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from infra.running.initialise import initialise
from infra.streams.keys import Keys
from tests.faults.pair import Pair, running_pair, stored_on
from tests.faults.receiver_process import post, receiver
from tests.sending import AGAIN_S, DEADLINE_S

REAL, BROKEN = "ingest", "tests.faults.broken.receiver_asks_no_replica"


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("C2", "C4")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("C2", "C4")),
    ],
)
async def test_what_no_replica_has_is_not_accepted_and_is_stored_once_when_it_is_sent_again(
    tmp_path: Path, module: str, is_faithful: bool, times: int
) -> None:
    stream = Keys("hooklake:", 1).events(0, "default")
    before, during = [[f"{when}-{number}" for number in range(10 * times)] for when in ("before", "during")]
    async with running_pair(tmp_path) as pair, hooks_of(module, pair=pair, home=tmp_path / "home") as hooks:
        accepted = await hooks.until_accepted(before)
        pair.cut()
        answers = await hooks.send(during)
        accepted |= {answer.json()["event_id"] for answer in answers if answer.status_code == 202}
        on_primary = set(stored_on(pair.primary, stream))
        await pair.fail_over()

        lost = accepted - set(stored_on(pair.replica, stream))
        assert {answer.status_code for answer in answers} == ({503} if is_faithful else {202})
        assert len(lost) == (0 if is_faithful else len(during))
        assert on_primary >= accepted  # so that there was something to lose

        await pair.bring_back()
        assert stored_on(pair.primary, stream).keys() == stored_on(pair.replica, stream).keys()  # what it had besides is gone
        accepted |= await hooks.until_accepted([*before, *during])
        found = stored_on(pair.replica, stream)
        assert sorted(fields[b"delivery_id"].decode() for fields in found.values()) == sorted([*before, *during])
        assert (accepted <= found.keys()) is is_faithful
        assert stored_on(pair.primary, stream).keys() == found.keys()


class Hooks:
    """Posts to a receiver, whole crowds at once."""

    def __init__(self, hook: str, *, home: Path) -> None:
        self._hook = hook
        self._home = home

    async def send(self, deliveries: list[str]) -> list[httpx.Response]:
        return await asyncio.gather(*[asyncio.to_thread(post, self._hook, home=self._home, delivery=one) for one in deliveries])

    async def until_accepted(self, deliveries: list[str]) -> set[str]:
        """Sends each again until it is accepted, as senders do; returns the event ids."""
        found: set[str] = set()
        async with asyncio.timeout(DEADLINE_S):
            while deliveries:
                answers = dict(zip(deliveries, await self.send(deliveries), strict=True))
                found |= {answer.json()["event_id"] for answer in answers.values() if answer.status_code == 202}
                deliveries = [delivery for delivery, answer in answers.items() if answer.status_code != 202]
                await asyncio.sleep(AGAIN_S)
        return found


@asynccontextmanager
async def hooks_of(module: str, *, pair: Pair, home: Path) -> AsyncIterator[Hooks]:
    initialise(home)
    log = pair.log
    settings = {"LOG__DURABILITY": log.durability, "LOG__TIMEOUT_MS": str(log.timeout_ms), "LOG__SHARDS": str(log.shards)}
    settings["INGEST__SPOOL"] = "false"  # with one, the receiver would have them all
    with ExitStack() as running:
        # In threads: the receiver reaches its log through proxies that live in this event loop.
        hook = await asyncio.to_thread(running.enter_context, receiver(module, home=home, log_url=log.url, **settings))
        yield Hooks(hook, home=home)
