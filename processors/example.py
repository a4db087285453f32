"""Owns the example: a processor that writes one log line per event. Copy it to begin your own."""

from __future__ import annotations

from processors import Delivery, StreamEvent, processor


@processor("*")
async def note(event: StreamEvent, delivery: Delivery) -> None:
    """Says that the event came by."""
    delivery.log.info("event came by", event_type=event.event_type, repository=event.repository, body_bytes=len(event.payload))
