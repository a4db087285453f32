"""Owns backlogs for the archive: very many events put on a log at once, as a receiver's append would have numbered and counted them.

A script makes many entries of each event that it is given, every one with an id and a delivery id of its own: made in Python, two
million of them would take longer than it takes to archive them.
"""

from __future__ import annotations

import random
from typing import Any

import orjson

from infra.settings import LogSettings
from infra.streams.entries import EVENT_FIELDS
from infra.streams.incarnations import new_incarnation
from infra.streams.keys import Keys
from infra.streams.scripts import run_blocking
from schemas.event import Priority
from tests.benchmarks.filling import wire_form

BODY_BYTES = 1700
DIFFERENT = 64
AT_ONCE = 640
KEEPER = "keeper"
"""A group that settles nothing, so that nothing is trimmed, and one backlog can be drained again and again."""
# KEYS 1 stream 2 ledger, ARGV 1 the stream's class 2 <tenant>:<source> 3 how many 4 the first one's place among all 5 how many fields and
# values an event has 6.. those of several events, which take turns; ids and delivery ids are formats of the place.
MANY = """
local incarnation = redis.call('HGET', KEYS[2], 'incarnation')
local field = 'sequence:' .. ARGV[1] .. ':' .. incarnation
local last, count, width = tonumber(redis.call('HGET', KEYS[2], field) or '0'), tonumber(ARGV[3]), tonumber(ARGV[5])
local kinds = (#ARGV - 5) / width
for i = 1, count do
    local entry, first, place = {'XADD', KEYS[1], '*'}, 5 + (i - 1) % kinds * width, tonumber(ARGV[4]) + i - 1
    for j = 1, width do
        entry[3 + j] = ARGV[first + j]
    end
    entry[3 + ID] = string.format(entry[3 + ID], place)
    entry[3 + DELIVERY] = string.format(entry[3 + DELIVERY], place)
    for _, part in ipairs({'incarnation', incarnation, 'sequence', string.format('%.0f', last + i), 'recheck', '0', 'conflict', '0'}) do
        entry[#entry + 1] = part
    end
    redis.call(unpack(entry))
end
redis.call('HSET', KEYS[2], field, string.format('%.0f', last + count))
redis.call('HINCRBY', KEYS[2], 'accepted:' .. ARGV[2], count)
"""


def put_backlog(client: Any, *, count: int, is_kept: bool = False) -> None:
    """Spreads `count` events over the shards' default streams; with `is_kept` they stay when they are archived."""
    log, stream = LogSettings(), Priority.DEFAULT.value
    keys = Keys(log.prefix, log.shards)
    for shard in keys.all_shards():
        run_blocking(client, "begin", keys=[keys.ledger(shard), keys.registry(shard)], args=[new_incarnation(), log.shards])
        if is_kept:
            client.xgroup_create(keys.events(shard, stream), KEEPER, "0", mkstream=True)
    script, forms = client.script_load(_with_places(MANY)), [_form(number) for number in range(DIFFERENT)]
    flat = [part for form in forms for part in form]
    for turn, first in enumerate(range(0, count, AT_ONCE)):
        shard, many = turn % log.shards, min(AT_ONCE, count - first)
        at = [keys.events(shard, stream), keys.ledger(shard)]
        client.evalsha(script, 2, *at, stream, "demo:github", many, first, len(forms[0]), *flat)


def _with_places(script: str) -> str:
    """With the numbers of the two values that differ among an event's fields and values."""
    places = {"ID": 2 * EVENT_FIELDS.index("id") + 2, "DELIVERY": 2 * EVENT_FIELDS.index("delivery_id") + 2}
    return "".join(f"local {name} = {place}\n" for name, place in places.items()) + script


def _form(number: int) -> list[Any]:
    form = wire_form(payload=a_push(number), event_type=f"github.kind_{number % 8}", repository=f"octo/{number % 16}")
    differing = {"id": "0199aaaa-0000-7000-8000-%012.0f", "delivery_id": "0199bbbb-0000-7000-8000-%012.0f"}
    names, values = form[::2], form[1::2]
    return [part for name, value in zip(names, values, strict=True) for part in (name, differing.get(str(name), value))]


def a_push(number: int) -> bytes:
    """JSON with members as a forge has them, of the size that is measured; another one for each number, the same in each run."""
    chance = random.Random(number)
    commits: list[dict[str, Any]] = []
    body: dict[str, Any] = {"ref": "refs/heads/main", "forced": False, "repository": {"id": number, "full_name": f"octo/{number}"}}
    while len(orjson.dumps({**body, "commits": commits})) < BODY_BYTES - 360:
        person = {"name": f"Octo {chance.randrange(99)}", "email": f"octo{chance.randrange(99)}@example.com"}
        text = f"{chance.getrandbits(160):040x}"
        changed = {"added": [], "modified": [f"src/{chance.getrandbits(32):x}.py"]}
        commits.append(
            {"id": text, "message": f"Change {text[:8]}", "distinct": True, "author": person, "size": chance.random(), **changed}
        )
    body["commits"] = commits
    body["note"] = f"{chance.getrandbits(4 * BODY_BYTES):x}"[: BODY_BYTES - len(orjson.dumps(body)) - len(',"note":""')]
    return orjson.dumps(body)
