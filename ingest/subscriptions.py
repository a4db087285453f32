"""Owns subscriptions to Amazon SNS: which topics a source believes, and confirming that it wants theirs.

Amazon signs for every customer's topic with the same certificate, so the signature alone says nothing about whose topic it is: a source
names its topics. A confirmation is a call to Amazon that we build ourselves, from the topic that the settings name and the token of the
message; the address in the message is never called.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import urlencode

from structlog.typing import FilteringBoundLogger

from ingest.answering import Answering
from ingest.confirming import confirm
from ingest.request import text_at
from schemas.errors import BadSignature

MOST_AT_ONCE = 8
Call = Callable[[str, str], Awaitable[str]]
"""Asks a host for a target; why that was no success, or nothing."""
is_token = re.compile(r"[A-Za-z0-9]{1,1024}\Z").match


class Subscription(NamedTuple):
    """A topic that waits for our consent, and the token that stands for it."""

    topic: str
    token: str

    @property
    def host(self) -> str:
        _, partition, _, region, *_ = self.topic.split(":")
        return f"sns.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"

    @property
    def target(self) -> str:
        """What is asked of that host."""
        return f"/?{urlencode({'Action': 'ConfirmSubscription', 'TopicArn': self.topic, 'Token': self.token})}"


def refuse_other_topics(answering: Answering, *, content: object) -> None:
    """Raises BadSignature for a message of a topic that the source does not name, if it names any."""
    if answering.topics and text_at(content, "TopicArn") not in answering.topics:
        raise BadSignature("the message is of an SNS topic that is not among the source's topics")


def subscription_in(answering: Answering, *, content: object) -> Subscription | None:
    """What is to be confirmed; None for every other message, and where the source confirms nothing."""
    if not answering.confirms or text_at(content, "Type") != "SubscriptionConfirmation":
        return None
    topic, token = text_at(content, "TopicArn"), text_at(content, "Token")
    return Subscription(topic, token) if topic in answering.topics and is_token(token) else None


class Confirmations:
    """Confirms in the background, a few at once. What fails is logged and left to Amazon, which asks again."""

    def __init__(self, log: FilteringBoundLogger, *, call: Call = confirm) -> None:
        self._log = log
        self._call = call
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, subscription: Subscription) -> None:
        """Returns at once."""
        if len(self._tasks) >= MOST_AT_ONCE:
            self._log.warning("subscription not confirmed", topic=subscription.topic, reason="too many are being confirmed already")
            return
        task = asyncio.get_running_loop().create_task(self._confirm(subscription))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _confirm(self, subscription: Subscription) -> None:
        reason = await self._call(subscription.host, subscription.target)
        if reason:
            self._log.warning("subscription not confirmed", topic=subscription.topic, reason=reason)
        else:
            self._log.info("subscription confirmed", topic=subscription.topic)
