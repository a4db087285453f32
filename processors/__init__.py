"""From stream to side effect: what a user's processor is, and the worker that runs it. Imports `schemas` and `infra` only."""

from processors.delivery import Delivery
from processors.middleware import Middleware, Next, Work
from processors.registry import processor
from processors.retry import Exponential
from processors.signals import Reject, Retry, SomeFailed
from schemas.event import StreamEvent

__all__ = ["Delivery", "Exponential", "Middleware", "Next", "Reject", "Retry", "SomeFailed", "StreamEvent", "Work", "processor"]
