"""Kills with SIGKILL, each in the middle of posts: every 202 is in the table exactly once, and the books balance."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import pytest

from infra.settings import LogSettings
from tests.end_to_end.installation import Installation
from tests.faults.checker import Accepted, aliases_of, faults, first_ids, rows_of

POSTS_PER_KILL = 250
EVERY_FIFTH_IS_A_DUPLICATE = 5
# Words of the victim's command line.
VICTIMS = {
    "worker": (r"-m processors",),
    "archive": (r"-m analytics",),
    "driver": (r"java", r"spark-archive"),
    "log": (r"valkey-server",),
}


@dataclass(slots=True)
class Sender:
    """Posts like a provider that repeats what was not answered with a 202, and sends one of five events twice."""

    installation: Installation
    accepted: list[Accepted] = field(default_factory=list)
    answered: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def post_many(self, count: int) -> None:
        with httpx.Client(timeout=15) as client, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: self._post(client, number=number), itertools.islice(self._numbers, count)))

    def _post(self, client: httpx.Client, *, number: int) -> None:
        original = number - 1 if number % EVERY_FIFTH_IS_A_DUPLICATE == 0 and number else number
        body = b'{"number": %d, "filler": "%s"}' % (original, b"x" * (original * 37 % 3000))
        delivery = f"delivery-{original}"
        event_id = self._until_accepted(client, body=body, delivery=delivery)
        self.accepted.append(Accepted(event_id, delivery, hashlib.sha256(body).hexdigest()))
        self.answered += 1

    def _until_accepted(self, client: httpx.Client, *, body: bytes, delivery: str) -> str:
        headers, deadline = self.installation.signed(body, delivery=delivery), time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                answer = client.post(self.installation.hook, content=body, headers=headers)
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code == 202:
                event_id: str = answer.json()["event_id"]
                return event_id
            assert answer.status_code == 503, f"{answer.status_code}: {answer.text}"
            assert answer.headers["retry-after"]
            time.sleep(0.1)
        raise AssertionError(f"{delivery} was not accepted within a minute")


@pytest.mark.fault("B1", "D2", "E1")
@pytest.mark.timeout(900)
def test_every_202_is_archived_once_whatever_is_killed(own_installation: Installation) -> None:
    installation, sender = own_installation, Sender(own_installation)

    for name, words in VICTIMS.items():
        installation.until(installation.is_ready, f"all is ready before {name} dies", within_s=300)
        victim = installation.pid_of(*words)
        assert victim is not None
        post_while(sender, killing=victim)

    distinct = {one.delivery_id for one in sender.accepted}
    installation.until(installation.has_archived, "everything is archived", within_s=300)
    rows, aliases = rows_of(installation.home), aliases_of(LogSettings(), home=installation.home)
    assert faults(first_ids(sender.accepted, aliases=aliases), rows=rows) == []
    assert (sender.answered, len(rows), len(distinct)) == (1000, 801, 801)
    assert len({row.incarnation for row in rows}) > 1  # the log's server was really killed among its events
    installation.until(lambda: installation.status()["groups"][1]["pending"] == 0, "the worker settled everything")
    status = installation.status()
    assert (status["accepted"], status["in_log"], status["out_of_balance"]) == (801, 0, 0)
    assert status["duplicates"] >= 199


def post_while(sender: Sender, *, killing: int) -> None:
    """Posts; kills the process when a quarter of the posts are answered, so that others are under way."""
    before = sender.answered
    posting = threading.Thread(target=sender.post_many, args=(POSTS_PER_KILL,))
    posting.start()
    while sender.answered < before + POSTS_PER_KILL // 4:
        assert posting.is_alive()
        time.sleep(0.001)
    os.kill(killing, signal.SIGKILL)
    posting.join(timeout=120)
    assert not posting.is_alive()
    assert sender.answered == before + POSTS_PER_KILL
