"""Owns a receiver's spool: what the log could not take is kept here, synced, until the log has it.

A receiver holds one folder for as long as it lives (`infra/spools.py` says what is in it) and finds there what its predecessor
left. What is kept is counted by shard, since order matters within a shard only: events of one that has nothing here pass by.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from infra.clock import Clock
from infra.segments import HEAD_BYTES
from infra.spools import SPOOL, Folder, Place, sync_folder
from infra.streams.packed import pack
from infra.telemetry import Telemetry
from ingest.backlog import Backlog, Batch
from ingest.group_commit import GroupCommit
from schemas.errors import SpoolFull, SpoolUnavailable
from schemas.event import StreamEvent

SEGMENT_BYTES = 16 * 1024 * 1024
RETRY_AFTER_S = 30
FEW, FEW_BYTES = 128, 8 * 1024 * 1024
"""Records of a shard, and bytes of all, that are appended within moments: events that come now can wait for them."""


class Spool:
    """One receiver's own, from `hold` until its process ends."""

    def __init__(self, folder: Folder, *, max_bytes: int, clock: Clock) -> None:
        self.folder = folder
        self.backlog = Backlog(folder)
        self._max_bytes = max_bytes
        self._clock = clock
        segments = folder.segments()
        self._first_number = segments[-1].number + 1 if segments else 1
        self._end = Place(self._first_number, 0)
        self._left_behind = bool(segments)
        self._waiting: Counter[int] = Counter()
        self._passed: dict[int, asyncio.Future[None]] = {}
        self._being_written = 0
        self._disk_fails = False
        self._writer: GroupCommit | None = None
        self.size_bytes = self.backlog.size_bytes()
        self._oldest_ms = self.backlog.oldest_ms()
        self.arrived = 0
        """Records that were kept since somebody set this to 0."""

    @classmethod
    def hold(cls, home: Path, *, max_bytes: int, clock: Clock) -> Spool:
        """Takes the first folder that nobody else has, with what is in it; raises OSError."""
        for number in count():
            folder = Folder(home / SPOOL / f"receiver-{number}")
            folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.hold() is not None:  # The descriptor is left open: the folder is ours until this process ends.
                for path in (folder.path, folder.path.parent, home):
                    sync_folder(path)
                return cls(folder, max_bytes=max_bytes, clock=clock)
        raise AssertionError("unreachable")

    def start(self) -> None:
        """To be called where the event loop runs, before anything is kept."""
        self._writer = GroupCommit(
            self.folder, first_number=self._first_number, segment_bytes=min(SEGMENT_BYTES, self._max_bytes // 8), clock=self._clock
        )

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()

    @property
    def is_empty(self) -> bool:
        return not self._left_behind and not self._waiting

    def has(self, shard: int) -> bool:
        """Whether there may be events of this shard, which later ones must not overtake."""
        return self._left_behind or shard in self._waiting

    def has_few(self, shard: int) -> bool:
        """Whether there are so few of this shard that `passed` is near, if the log takes them."""
        return not self._left_behind and 0 < self._waiting[shard] <= FEW and self.size_bytes <= FEW_BYTES

    async def passed(self, shard: int, *, within_s: float) -> bool:
        """Waits until nothing of this shard is here; false when that takes longer. Who waits is let go in the order of the calls."""
        passed = self._passed.setdefault(shard, asyncio.get_running_loop().create_future())
        done, _ = await asyncio.wait([passed], timeout=within_s)
        return bool(done)

    @property
    def has_room(self) -> bool:
        return self.size_bytes < self._max_bytes and not self._disk_fails

    @property
    def end(self) -> Place:
        """Everything before it is synced."""
        return self._end

    async def keep(self, events: Sequence[StreamEvent], *, shard: int) -> None:
        """Returns when all of them are synced, as one record; raises SpoolFull, SpoolUnavailable."""
        packed = pack(events)
        size_bytes = HEAD_BYTES + len(packed)
        if self.size_bytes + size_bytes > self._max_bytes:
            raise SpoolFull(f"the spool holds {self.size_bytes} of {self._max_bytes} bytes already", retry_after_s=RETRY_AFTER_S)
        self.size_bytes += size_bytes
        self._waiting[shard] += 1
        self._being_written += 1
        self._oldest_ms = self._oldest_ms or self._clock.now_ms()
        assert self._writer is not None
        await self._writer.write(packed, events=len(events), then=self._written(shard, size_bytes=size_bytes))

    async def try_disk(self) -> None:
        """Asks a disk that failed whether it takes records again, by one without events: who heeds `has_room` sends nothing till then."""
        if self._disk_fails and not self._being_written:
            with contextlib.suppress(SpoolUnavailable, SpoolFull):
                await self.keep([], shard=0)

    def _written(self, shard: int, *, size_bytes: int) -> Callable[[Place | None], None]:
        def then(end: Place | None) -> None:
            self._being_written -= 1
            self._disk_fails = end is None
            if end is None:
                self.size_bytes -= size_bytes
                self._forget(shard)
            else:
                self._end = max(self._end, end)
                self.arrived += 1

        return then

    def settled(self, batch: Batch, *, shards: Sequence[int]) -> None:
        """The log has these records; `shards` has that of each whole one."""
        self.size_bytes -= batch.end - batch.start
        self._oldest_ms = max((record.written_ms for record in batch.records), default=self._oldest_ms)
        if batch.segment.number >= self._first_number:
            self._left_behind = False  # It was older.
            for shard in shards:
                self._forget(shard)

    def _forget(self, shard: int) -> None:
        self._waiting[shard] -= 1
        if self._waiting[shard] <= 0:
            del self._waiting[shard]
            self._let_pass(shard)

    def _let_pass(self, shard: int) -> None:
        if (passed := self._passed.pop(shard, None)) is not None:
            passed.set_result(None)

    def tell(self, telemetry: Telemetry) -> None:
        age_ms = 0 if self._oldest_ms is None else max(0, self._clock.now_ms() - self._oldest_ms)
        telemetry.spool_bytes.set(self.size_bytes)
        telemetry.spool_age.set(age_ms / 1000)

    async def rest(self, *, upto: Place) -> bool:
        """To be called when nothing more was found before `upto`; true when that is all, so that the last segment can be deleted."""
        self._left_behind = False
        if self._being_written or self._end != upto:
            return False
        # Of a record that was damaged nobody can tell which shard it was counted for.
        self._waiting.clear()
        for shard in list(self._passed):
            self._let_pass(shard)
        self.size_bytes, self._oldest_ms = 0, None
        assert self._writer is not None
        if upto.offset:
            self._end = max(self._end, await self._writer.seal())
        return True
