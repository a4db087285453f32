"""Owns the short way of a webhook through the receiver: one that is here whole, and is as usual, is read at once.

Without ASGI, and while the log takes events without a task or a `StreamEvent`: it is appended by the form of its source, together with
what else came in the same turn of the event loop (`turn.py`). Whatever is not as simple as that (`quick.py`) takes the long way
(`receive.py`), and so does every refusal of the sender's.
"""

from __future__ import annotations

from infra.running.direct import Arrived, Exchange
from ingest.keeping import Keeper
from ingest.proxies import Proxies
from ingest.quick import Read, reader_of
from ingest.receive import Receiver
from ingest.sources import Source
from ingest.turn import Refuse, Turns, Way, Webhook


class Shortcut:
    """Answers webhooks that are here whole."""

    def __init__(self, receiver: Receiver, *, proxies: Proxies, refuse: Refuse) -> None:
        self._in_flight, self._now = receiver.in_flight, receiver.clock.now
        self._most_headers, self._most_bytes = receiver.settings.max_headers, receiver.settings.max_header_bytes
        self._proxies = proxies
        self._refuse = refuse
        self._turns = Turns(receiver, refuse=refuse)
        routes = receiver.sources.by_route.values() if not receiver.telemetry.records_spans else ()
        ways = (_way(source, keeper=receiver.keeper) for source in routes)
        self._ways = {f"/hooks/{way.source.tenant}/{way.source.name}".encode(): way for way in ways if way is not None}

    def __call__(self, arrived: Arrived, exchange: Exchange) -> bool:
        """Begins to answer; false leaves the request to the long way."""
        way = self._ways.get(arrived.target)
        if way is None:
            return False
        try:
            read = self._read(arrived, way)
            if read is None:
                return False
            address = self._proxies.sender(arrived.peer, raw_headers=arrived.headers)
        except Exception as error:
            # The edge: nobody expected it, so it is no fault of the sender, who would be told 400 by the server around us.
            exchange.answer(self._refuse(error, arrived.target.decode(), arrived.peer))
            return True
        self._turns.add(Webhook(way, read, arrived.body, address, exchange))
        return True

    def _read(self, arrived: Arrived, way: Way) -> Read | None:
        _, raw_headers, body, _, head_bytes = arrived
        headers, size_bytes = dict(raw_headers), len(body)
        if len(headers) < len(raw_headers) or len(headers) > self._most_headers or head_bytes > self._most_bytes:
            return None
        if size_bytes > way.source.max_body_bytes or not self._in_flight.has_room(size_bytes):
            return None
        return way.reader.read(headers, body, now=self._now)


def _way(source: Source, *, keeper: Keeper) -> Way | None:
    reader = reader_of(source)
    if reader is None:
        return None
    return Way(source, reader=reader, form=keeper.form(source.tenant, source.name, priority=source.priority))
