"""Owns what a cluster says about its slots: which slot a command is about, which node has it, where a reply sends us. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redis.crc import key_slot

from infra.streams.scripts import Argument

KEYLESS = frozenset({"PING", "TIME", "INFO", "CONFIG", "CLUSTER", "SCRIPT"})
KEY_AFTER_SUBCOMMAND = frozenset({"XINFO", "XGROUP", "OBJECT", "MEMORY"})
KEY_AFTER_STREAMS = frozenset({"XREAD", "XREADGROUP"})
KEY_AFTER_NUMBER = frozenset({"EVAL", "EVALSHA"})
NAMELESS_HOSTS = ("", "?")
"""What a node is called that does not know its own name: it is where the answer came from."""


def slot_of(command: Sequence[Argument]) -> int | None:
    """The slot of the command's first key, with which all its others share a hash tag; None when it has no key."""
    name = str(command[0])
    if name in KEYLESS:
        return None
    if name in KEY_AFTER_NUMBER:
        return slot_of_key(command[3]) if command[2] else None
    if name in KEY_AFTER_STREAMS:
        return slot_of_key(command[command.index("STREAMS") + 1])
    return slot_of_key(command[2 if name in KEY_AFTER_SUBCOMMAND else 1])


def slot_of_key(key: Argument) -> int:
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


@dataclass(frozen=True, slots=True)
class SlotRange:
    """The slots from `first` to `last`, which the primary `node` (`host:port`) has."""

    first: int
    last: int
    node: str


def read_ranges(reply: Sequence[Any], *, asked: str) -> list[SlotRange]:
    """What CLUSTER SLOTS answered on the node `asked`."""
    return [SlotRange(first, last, _node_name(host or b"", port, asked=asked)) for first, last, (host, port, *_), *_ in reply]


@dataclass(frozen=True, slots=True)
class Redirection:
    """MOVED: another node has the slot now. ASK: another node is about to have it, and has the keys of this command already."""

    kind: Literal["MOVED", "ASK"]
    node: str


def read_redirection(error: str, *, asked: str) -> Redirection | None:
    """Where an error reply of the node `asked` sends us, `MOVED 3999 127.0.0.1:6381`; None for every other error."""
    kind, _, rest = error.partition(" ")
    if kind not in ("MOVED", "ASK"):
        return None
    host, _, port = rest.partition(" ")[2].rpartition(":")
    return Redirection("MOVED" if kind == "MOVED" else "ASK", _node_name(host.encode(), int(port), asked=asked))


def _node_name(host: bytes, port: int, *, asked: str) -> str:
    name = host.decode().strip("[]")
    if name in NAMELESS_HOSTS:
        return f"{asked.rpartition(':')[0]}:{port}"
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
