from __future__ import annotations

import pytest

from infra.streams.scripts import Argument
from infra.streams.slots import Redirection, SlotRange, read_ranges, read_redirection, slot_of, slot_of_key


@pytest.mark.parametrize(
    "command",
    [
        ("HGETALL", "{3}:ledger"),
        ("XINFO", "GROUPS", "{3}:dead"),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "{3}:a", "{3}:b", ">", ">"),
        ("EVALSHA", "digest", 2, "{3}:a", "{3}:b", "an argument"),
        ("XRANGE", b"{3}:a", "-", "+"),
    ],
)
def test_a_command_is_about_the_slot_of_its_keys(command: tuple[Argument, ...]) -> None:
    assert slot_of(command) == slot_of_key("3") == 1584


@pytest.mark.parametrize("command", [("PING",), ("TIME",), ("INFO", "server"), ("EVAL", "return 1", 0)])
def test_a_command_without_a_key_is_about_no_slot(command: tuple[Argument, ...]) -> None:
    assert slot_of(command) is None


def test_a_cluster_tells_the_primary_of_each_range() -> None:
    primary, replica = [b"10.0.0.1", 7000, b"id", []], [b"10.0.0.9", 7009, b"id", []]
    reply = [
        [0, 99, primary, replica],
        [100, 199, [b"fd00::1", 7001, b"id"]],
        [200, 299, [b"", 7002, b"id"]],
        [300, 399, [None, 7003, b"id"]],
    ]

    assert read_ranges(reply, asked="log:6379") == [
        SlotRange(0, 99, "10.0.0.1:7000"),
        SlotRange(100, 199, "[fd00::1]:7001"),
        SlotRange(200, 299, "log:7002"),
        SlotRange(300, 399, "log:7003"),
    ]


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        ("MOVED 3999 127.0.0.1:6381", Redirection("MOVED", "127.0.0.1:6381")),
        ("ASK 3999 fd00::1:6381", Redirection("ASK", "[fd00::1]:6381")),
        ("MOVED 3999 :6381", Redirection("MOVED", "log:6381")),
        ("MOVED 3999 ?:6381", Redirection("MOVED", "log:6381")),
        ("TRYAGAIN Multiple keys request during rehashing of slot", None),
        ("CLUSTERDOWN Hash slot not served", None),
        ("ERR unknown command", None),
    ],
)
def test_a_reply_sends_us_to_another_node_only_when_it_says_so(error: str, meant: Redirection | None) -> None:
    assert read_redirection(error, asked="log:6379") == meant
