"""Owns asking the same of every fault of the log: all is accepted meanwhile, and all is on the log once when the fault is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.spools import read_spools
from infra.streams.keys import Keys
from tests.faults.receiver_process import ReceiverProcess, post, receiver_process
from tests.infra.running.processes import until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port


@dataclass(slots=True)
class Outage:
    """A log and a receiver that posts are sent to while something is wrong with the log, and what was answered."""

    server: EmbeddedServer
    home: Path
    receiver: ReceiverProcess
    answers: dict[str, httpx.Response] = field(default_factory=dict)

    def send(self, *deliveries: str) -> list[httpx.Response]:
        for delivery in deliveries:
            self.answers[delivery] = post(self.receiver.hook, home=self.home, delivery=delivery)
        return [self.answers[delivery] for delivery in deliveries]

    @property
    def accepted(self) -> set[str]:
        return {delivery for delivery, answer in self.answers.items() if answer.status_code == 202}

    def is_spooling(self) -> bool:
        """Sends one more event to see."""
        (answer,) = self.send(f"looking-{len(self.answers)}")
        return bool(answer.json().get("spooled"))

    def drained(self) -> None:
        """Waits until nothing is in a spool any more."""
        until(lambda: not any(state.events for state in read_spools(self.home)), what="the spool is emptied")

    def stored(self) -> Counter[str]:
        """How often each delivery is on the log."""
        return stored_on(self.server, home=self.home)

    def spooled(self, *deliveries: str) -> bool:
        """Whether all of them were accepted into the spool."""
        return all(self.answers[one].status_code == 202 and self.answers[one].json().get("spooled") for one in deliveries)


def stored_on(server: EmbeddedServer, *, home: Path) -> Counter[str]:
    return Counter(fields[b"delivery_id"].decode() for fields in entries_on(server, home=home))


def entries_on(server: EmbeddedServer, *, home: Path) -> list[dict[bytes, bytes]]:
    log = LogSettings(url=server.url)
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    found = [fields for stream in streams for _, fields in client.xrange(stream)]
    client.close()
    return found


@contextmanager
def outage(module: str, *, folder: Path, server: EmbeddedServer | None = None, log_url: str = "", **settings: str) -> Iterator[Outage]:
    """Over a server of its own unless one is given, which is started already."""
    home, own = folder / "home", server or EmbeddedServer(folder / "log", free_port(), password="a-test-password")
    initialise(home)
    if server is None:
        own.start()
    try:
        with receiver_process(module, home=home, log_url=log_url or own.url, settings=settings) as running:
            yield Outage(own, home, running)
    finally:
        own.kill()
