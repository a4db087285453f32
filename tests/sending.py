"""Owns sending as senders do: once, or again and again until the event is accepted."""

from __future__ import annotations

import asyncio

from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from schemas.event import StreamEvent
from schemas.receipt import Receipt

DEADLINE_S = 30.0
AGAIN_S = 0.02
"""How soon something is asked again that a deadline waits for."""


async def until_appended(stream: EventStream, event: StreamEvent) -> Receipt:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await stream.append(event)
            except StreamUnavailable:
                await asyncio.sleep(AGAIN_S)


async def accepted_of(events: list[StreamEvent], *, stream: EventStream) -> list[Receipt]:
    """Each is sent once, all at the same time."""
    answers = await asyncio.gather(*[stream.append(event) for event in events], return_exceptions=True)
    assert all(isinstance(answer, Receipt | StreamUnavailable) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Receipt)]
