"""Owns the asyncio connections to a cluster: one to each node that has slots of ours, and the way of each command to its node.

All keys of a command share a hash tag, so each command has one slot and one node. Where the slots are is asked when it is
first needed, and again when a node is lost or the cluster says that it is down; a slot that moves says so itself. A command
that a node refuses because the slot is elsewhere was not carried out, so that it may be sent again; nothing else is, and what
was meant for one connection (`generation`) is not either.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, cast

import hiredis

from infra.log_address import node_address, seed_nodes
from infra.streams.framing import Command
from infra.streams.pipelining import Pipeline, ServerPipeline
from infra.streams.scripts import Argument
from infra.streams.slots import Redirection, SlotRange, read_ranges, read_redirection, slot_of, slot_of_key
from infra.streams.wire import Confirmation
from schemas.errors import StreamUnavailable

# Two nodes may send us to each other while a slot moves between them, until both know who has it.
MOST_REDIRECTIONS = 5
# How soon the slots are asked for again: every waiting request would ask for itself.
ASKED_AGAIN_AFTER_S = 0.05
# Some write to a key that they find only as they run. While its slot moves, the new node would make it there a second time;
# so scripts wait until all keys have moved.
SCRIPTS = ("EVAL", "EVALSHA")


class ClusterPipeline(Pipeline):
    """A connection to each node, made when needed and made again when lost, and one numbering of all connections.

    A generation says on which connection something was learnt. Were nodes numbered apart, a number that was learnt on a
    primary could be used on the replica that replaced it, which may lack the last entries.
    """

    one_keyspace = False

    def __init__(
        self, url: str, *, timeout_ms: int, generations: Iterator[int] | None = None, confirmation: Confirmation | None = None
    ) -> None:
        self._url = url
        self._timeout_ms = timeout_ms
        self._confirmation = confirmation
        self._generations = generations or itertools.count(1)
        self._nodes: dict[str, ServerPipeline] = {}
        self._ranges: list[SlotRange] = []
        self._moved: dict[int, str] = {}
        self._is_stale = True
        self._asked_at = 0.0
        self._asking = asyncio.Lock()

    async def connect(self, key: str = "", /) -> int:
        node = await self._node_of(slot_of_key(key) if key else None)
        try:
            return await self._pipeline_to(node).connect()
        except StreamUnavailable:
            self._is_stale = True
            raise

    async def send(self, command: Command, *, generation: int | None = None, is_confirmed: bool = False) -> Any:
        slot = slot_of(cast(Sequence[Argument], command))  # What is framed stands behind the keys.
        redirection: Redirection | None = None
        for _ in range(MOST_REDIRECTIONS):
            if redirection is not None and redirection.kind == "ASK":
                node = redirection.node
                reply = await self._pipeline_to(node).send_asking(command)
            else:
                node = await self._node_of(slot)
                reply = await self._send_to(node, command, generation=generation, is_confirmed=is_confirmed)
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            redirection = self._heed(str(reply), slot=slot, asked=node)
            if redirection is None:
                return reply
            if generation is not None or (redirection.kind == "ASK" and command[0] in SCRIPTS):
                raise StreamUnavailable(f"slot {slot} of the log is moving to {redirection.node}")
        raise StreamUnavailable(f"the nodes of the log send slot {slot} to each other")

    def sent(self, command: Command, *, generation: int, is_confirmed: bool = False) -> None:
        """Never at once: where a slot is may have to be asked for."""

    async def _send_to(self, node: str, command: Command, *, generation: int | None, is_confirmed: bool) -> Any:
        try:
            return await self._pipeline_to(node).send(command, generation=generation, is_confirmed=is_confirmed)
        except StreamUnavailable:
            self._is_stale = True
            raise

    def _heed(self, error: str, *, slot: int | None, asked: str) -> Redirection | None:
        """Learns from an error reply where the slot is."""
        if error.startswith("CLUSTERDOWN"):
            self._is_stale = True
        redirection = read_redirection(error, asked=asked)
        if redirection is not None and redirection.kind == "MOVED" and slot is not None:
            self._moved[slot] = redirection.node
        return redirection

    async def _node_of(self, slot: int | None) -> str:
        if self._is_stale:
            await self._ask_for_slots()
        if slot is None:
            return self._any_node()
        node = self._moved.get(slot) or next((found.node for found in self._ranges if found.first <= slot <= found.last), "")
        if not node:
            self._is_stale = True
            raise StreamUnavailable(f"no node of the log has slot {slot}")
        return node

    def _any_node(self) -> str:
        """One that is connected, if there is one: it need not be waited for."""
        known = [found.node for found in self._ranges]
        return next((node for node in known if self._pipeline_to(node).is_open), random.choice(known))

    def _pipeline_to(self, node: str) -> ServerPipeline:
        if node not in self._nodes:
            address = node_address(self._url, node=node)
            self._nodes[node] = ServerPipeline(
                lambda: address, timeout_ms=self._timeout_ms, generations=self._generations, confirmation=self._confirmation
            )
        return self._nodes[node]

    async def _ask_for_slots(self) -> None:
        """Asks one node after another until one knows; raises StreamUnavailable when none ever did.

        What was known before still serves when nobody answers now: a node that is gone says so when it is called.
        """
        loop = asyncio.get_running_loop()
        async with self._asking:
            if not self._is_stale or (self._ranges and loop.time() < self._asked_at + ASKED_AGAIN_AFTER_S):
                return
            reason = "it has no slots"
            for node in self._whom_to_ask():
                try:
                    # Half of the time, so that a node that hangs leaves some for another.
                    async with asyncio.timeout(self._timeout_ms / 2000):
                        self._learn(read_ranges(await self._pipeline_to(node).call("CLUSTER", "SLOTS"), asked=node))
                except (StreamUnavailable, TimeoutError) as error:
                    reason = str(error) or "no reply in time"
                if not self._is_stale:
                    break
            self._asked_at = loop.time()
            if not self._ranges:
                raise StreamUnavailable(f"no node of the log's cluster can be asked: {reason}")

    def _whom_to_ask(self) -> list[str]:
        """Connected nodes first; in any order, since one that was cut off from the others does not know that it was."""
        known = list(dict.fromkeys([*(found.node for found in self._ranges), *self._moved.values(), *seed_nodes(self._url)]))
        random.shuffle(known)
        return sorted(known, key=lambda node: not self._pipeline_to(node).is_open)

    def _learn(self, ranges: list[SlotRange]) -> None:
        if not ranges:
            return
        self._ranges, self._is_stale = ranges, False
        self._moved.clear()

    async def close(self) -> None:
        for pipeline in self._nodes.values():
            await pipeline.close()
