"""Owns every name that is stored in the log: keys, streams and the fields of the ledger.

All keys of shard n carry the hash tag `{n}`, so that one script may touch them together on a cluster.

    {n}:events:<urgent|default|low|overflow>   stream  what was accepted; groups `archive` and one per deployment
    {n}:retry:<group>                          stream  entries that the group tries again; nobody else reads it
    {n}:replay:<group>                         stream  archived events that are handed to the group again, or for the first time; nobody
                                                       else reads it
    {n}:replays:<group>                        hash    the replays of the group, and how far each has come in this shard
    {n}:parked:<group>                         stream  entries of a version that the worker which had them could not read; the
                                                       group's next worker that can takes them back, into the retry stream
    {n}:delayed, {n}:delayed:bodies            zset, hash  retries and scheduled events that wait for server time
    {n}:dead, {n}:dead:state                   stream, hash  dead letters, and what became of them
    {n}:quarantine, {n}:quarantine:state       stream, hash  requests that were refused and kept aside, and what became of them;
                                               `releasing:<entry id>` of one whose event is being appended: who began that
    {n}:outcomes                               stream  what was settled, one packed entry per settled batch; and aliases
    {n}:seen:<period>:<bucket>                 hash    delivery ids of one period; children of a full bucket are <bucket>.<digits>
    {n}:seen:<hours>h:<period>:<bucket>        hash    the same of sources with a window of their own, whose periods are shorter
    {n}:ledger                                 hash    incarnation, sequence numbers, archived marks, counts
    {n}:registry                               hash    number of shards, declared groups, their positions and signs of life
    {n}:once:<group>                           set     what the group wrote through `delivery.once`: kind and name
    {n}:once:<group>:<kind>:<name>             hash or set  one of these: `counts`, `values` (event id and value) or `members`
    {n}:owed:<group>                           hash    what was taken off the log although the group had not settled it; all of it is
                                                       in the archive, from which it is to be given back
    {n}:lost:<group>                           hash    what was trimmed beneath the group, and when that was noticed: entries in work,
                                                       `stream|entry id`, and what it was never handed, `stream|incarnation:first-last`
                                                       number; ten thousand at most, all are counted in the ledger
    {n}:audit                                  stream  who purged which group or erased what, and how much went; kept for ever
    {n}:erased                                 hash    numbers of entries that were erased: `stream|incarnation|first number`, and the last
    {n}:rebuilt:<stream>, {n}:replaced:<stream>  stream  a copy of `events:default`, `retry:<group>`, ... while it is built anew, and what
                                                       it then replaces
    {n}:lease:<group>                          string  the consumer that reads this shard in a group that keeps order; {0}:lease:archive:
                                                       the archive that fills the tables
    {0}:housekeeper                            string  the process that keeps the log's house at present
    {0}:members:<group>                        zset    the consumers among whom the shards of such a group are divided

Fields of the ledger:

    replication_id, incarnation                whom the numbers below belong to
    sequence:<stream>:<incarnation>            the last number given
    full                                       server time in ms until which appends are refused: the log is above its hard cap
    seen_depths, seen_depths:<hours>h          which periods have buckets, and how many generations of children these have
    archived:<stream>:<incarnation>            entry id and number up to which Delta has every row, `id|number`
    accepted:<tenant>:<source>                 events stored; duplicates:..., conflicts:... are counted beside them
    scheduled:<tenant>:<source>                those of them that wait for their time
    erased_scheduled:<tenant>:<source>         events that were erased while they waited for their time
    lost_scheduled                             those that were gone when their time came
    dead:<group>, closed:<group>               dead letters written; those requeued, discarded or past their retention
    lost:<group>                               entries that somebody trimmed beneath the group, in work or not yet delivered
    owed:<group>                               events that `{n}:owed:<group>` stands for
    said:<group>, said:<group>:<owed field>    that the group was declared again after the log was wiped (shard 0), and that this much
                                               became owed to it: each is done once
    rows:events, lost:archive                  rows of the table after the newest commit, entries that no row will have (shard 0)
    rows:<table>, missing:<table>              the same of dead_letters, outcomes and quarantine (shard 0)
    foreign:events, repeated:events            rows that nobody accepted; events that were accepted again and have a row (shard 0)
    before:accepted                            events that ledgers which are gone had counted (shard 0)
    erased:events, expired:events              accepted events whose rows were erased, or were past their retention (shard 0)
    rows:events:<tenant>:<source>              accepted events that ever had a row; erased:events:..., expired:events:... (shard 0)
    sequence:dead:<incarnation>                the last number given to the stream of dead letters
    quarantined:<tenant>:<source>              refused requests that were kept aside; decided:..., those of them released or discarded
    quarantine_bytes:<tenant>:<source>         how large those are that nobody decided about
    used:<tenant>:<source>:<key id>            when that secret last verified a request, ms, to the minute (shard 0)
    unkept:<tenant>:<source>                   refused requests that were not kept, since there were too many
    sequence:quarantine:<incarnation>          the last number given to the stream of refused requests
    sequence:outcomes:<incarnation>            the last number given to the stream of outcomes
    dropped:outcomes                           entries of it that were trimmed because nobody archives them

Fields of `{n}:owed:<group>`:

    range|<stream>|<incarnation>|<to>          `after|first|last`: every entry above the id `after`, up to and including `to`, with the
                                               numbers from first to last; without incarnation and numbers where all are foreign entries
    id|<stream>|<incarnation>|<entry id>       `number|delivery count`: an entry that was in work; without incarnation and number when
                                               it was gone from the stream by then

Fields of `{n}:replays:<group>`:

    about:<replay>                             JSON: what is replayed, who began it and when, how many events it is (shard 0)
    at:<replay>                                `how many events|the place of the last one`: all of them stand on the replay stream, or did;
                                               `how many events|end` when this shard has them all
    mark:<replay>:<stream>                     JSON: where the stream ended when the group was made for this replay; the group was handed
                                               what came after that, and the replay brings what came before

Fields of the registry:

    shards                                     how many there are, fixed at first start
    group:<group>                              `durable`, or `ephemeral:<time to live, ms>`
    at:<group>:<stream>                        how far the group has settled, `incarnation|entry id`; `incarnation|(entry id` when it is
                                               everything before the first entry that is in work
    made:<group>:<stream>                      JSON: where the group stood when it was made, until somebody looks at the stream
    gaps:<stream>                              JSON: how many entries were ever removed, which numbers of each incarnation are gone, and up
                                               to which number each group had been handed the stream when it was looked at last
    alive:<group>                              server time in ms when a worker of the group last said that it lives
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.event import Priority, StreamEvent

ARCHIVE_GROUP = "archive"
EVENT_STREAMS = tuple(priority.value for priority in Priority)
RECORD_STREAMS = ("dead", "outcomes", "quarantine")
"""What is recorded beside events; numbered like them, and archived like them."""
ARCHIVED_STREAMS = (*EVENT_STREAMS, *RECORD_STREAMS)


@dataclass(frozen=True, slots=True)
class Keys:
    """Builds the keys of one log; pure."""

    prefix: str
    shards: int

    def shard_of(self, event: StreamEvent) -> int:
        # Without an ordering key the delivery id spreads events, and a duplicate still meets its first. Parts are not spread: those
        # of one body are appended together, and a sender may repeat one of them in the company of others.
        spread = event.key or event.delivery_id or event.id if event.part is None else ""
        return zlib.crc32("\0".join((event.tenant_id, event.source, spread)).encode()) % self.shards

    def shard_for(self, name: str) -> int:
        """For what belongs to no shard by its nature: spread by its name."""
        return zlib.crc32(name.encode()) % self.shards

    def all_shards(self) -> range:
        return range(self.shards)

    def _key(self, shard: int, rest: str) -> str:
        return f"{self.prefix}{{{shard}}}:{rest}"

    def events(self, shard: int, name: str) -> str:
        return self._key(shard, f"events:{name}")

    def event_streams(self, shard: int) -> list[str]:
        return [self.events(shard, name) for name in EVENT_STREAMS]

    def archived(self, shard: int, name: str) -> str:
        """A stream that the archive reads, by the name under which the ledger numbers it."""
        return self._key(shard, archived_path(name))

    def archived_streams(self, shard: int) -> list[str]:
        return [self.archived(shard, name) for name in ARCHIVED_STREAMS]

    def retry(self, shard: int, group: str) -> str:
        return self._key(shard, f"retry:{group}")

    def replay(self, shard: int, group: str) -> str:
        return self._key(shard, f"replay:{group}")

    def replays(self, shard: int, group: str) -> str:
        return self._key(shard, f"replays:{group}")

    def parked(self, shard: int, group: str) -> str:
        return self._key(shard, f"parked:{group}")

    def delayed(self, shard: int) -> str:
        return self._key(shard, "delayed")

    def delayed_bodies(self, shard: int) -> str:
        return self._key(shard, "delayed:bodies")

    def dead(self, shard: int) -> str:
        return self._key(shard, "dead")

    def dead_state(self, shard: int) -> str:
        return self._key(shard, "dead:state")

    def quarantine(self, shard: int) -> str:
        return self._key(shard, "quarantine")

    def quarantine_state(self, shard: int) -> str:
        return self._key(shard, "quarantine:state")

    def outcomes(self, shard: int) -> str:
        return self._key(shard, "outcomes")

    def seen(self, shard: int, *, window: str, periods: Iterable[int]) -> list[str]:
        """The buckets of several periods, but for their numbers; `window` is empty for the log's own."""
        before = self._key(shard, f"seen:{window}:" if window else "seen:")
        return [f"{before}{period}:" for period in periods]

    def owed(self, shard: int, group: str) -> str:
        return self._key(shard, f"owed:{group}")

    def lost(self, shard: int, group: str) -> str:
        return self._key(shard, f"lost:{group}")

    def audit(self, shard: int) -> str:
        return self._key(shard, "audit")

    def erased(self, shard: int) -> str:
        return self._key(shard, "erased")

    def rebuilt(self, shard: int, stream: str) -> tuple[str, str]:
        """Where the stream of that key is built anew, and what it is called on its way out."""
        rest = stream.removeprefix(self._key(shard, ""))
        return self._key(shard, f"rebuilt:{rest}"), self._key(shard, f"replaced:{rest}")

    def of_groups(self, shard: int, kind: str) -> str:
        """A pattern for the keys that groups have of one kind, also groups that nobody declares any more."""
        return self._key(shard, f"{kind}:*")

    def ledger(self, shard: int) -> str:
        return self._key(shard, "ledger")

    def lease(self, shard: int, group: str) -> str:
        return self._key(shard, f"lease:{group}")

    def members(self, group: str) -> str:
        return self._key(0, f"members:{group}")

    def once(self, shard: int, group: str) -> str:
        return self._key(shard, f"once:{group}")

    def once_key(self, shard: int, group: str, *, kind: str, name: str) -> str:
        return f"{self.once(shard, group)}:{kind}:{name}"

    def housekeeper(self) -> str:
        return self._key(0, "housekeeper")

    def registry(self, shard: int) -> str:
        return self._key(shard, "registry")


def archived_path(name: str) -> str:
    """The key of such a stream within its shard, `events:default` or `dead`. Pure."""
    return f"events:{name}" if name in EVENT_STREAMS else name


def why_other_shards(fixed: str | bytes | None, *, wanted: int) -> str:
    """The sentence for a log that was begun with another number of shards, or an empty text."""
    if fixed is None or int(fixed) == wanted:
        return ""
    return (
        f"log.shards={wanted}, but this log was begun with {int(fixed)} shards: events would be looked for in the wrong shard; "
        f"set log.shards to {int(fixed)}"
    )
