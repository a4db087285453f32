"""Owns appending events by a timetable: whether the worker keeps up or not, each is due when it is due."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.streams.scripts import Argument
from schemas.event import Priority
from tests.benchmarks.filling import Filling, wire_form, wire_forms
from tests.benchmarks.ours import streams_of
from tests.benchmarks.waits import stamped_body

# A flood's events repeat after so many: making each one anew would take the sender more time than the log takes to append it.
DIFFERENT = 500
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Trickle:
    """So many events of one tenant and priority at a steady rate, spread over the shards in turn."""

    count: int
    per_second: float
    tenant: str
    priority: Priority = Priority.DEFAULT
    is_measured: bool = True

    @property
    def lasts_s(self) -> float:
        return self.count / self.per_second

    def due_ns(self, number: int) -> int:
        """When an event is due, from the beginning; the first one is 0."""
        return round(number * 1e9 / self.per_second)

    def due_by(self, elapsed_ns: int) -> int:
        """How many are due by then."""
        return max(0, min(self.count, math.floor(elapsed_ns * self.per_second / 1e9) + 1))

    def send(self, client: Any, *, begin_ns: int) -> None:
        """Appends all of them, what is due together in one write; returns when the log has the last one.

        An event counts as waiting from when it was due, not from when we came round to it: a log that holds us up with one
        event would hide the wait of the next ones.
        """
        filling = Filling(client)
        streams, forms, sent = itertools.cycle(streams_of(self.priority)), self._forms(begin_ns), 0
        while sent < self.count:
            time.sleep(max(0, begin_ns + self.due_ns(sent) - time.monotonic_ns()) / 1e9)
            pipeline: Any = client.pipeline(transaction=False)
            count = min(AT_ONCE, max(1, self.due_by(time.monotonic_ns() - begin_ns) - sent))
            for fields in itertools.islice(forms, count):
                pipeline.execute_command(*filling.command(next(streams), fields))
            pipeline.execute()
            sent += count

    def _forms(self, begin_ns: int) -> Iterator[list[Argument]]:
        changes: dict[str, Any] = {"tenant_id": self.tenant, "priority": self.priority}
        if not self.is_measured:
            return itertools.cycle(list(wire_forms(min(DIFFERENT, self.count), **changes)))
        dues = (begin_ns + self.due_ns(number) for number in range(self.count))
        return (wire_form(payload=stamped_body(due), **changes) for due in dues)
