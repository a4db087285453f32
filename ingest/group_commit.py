"""Owns writing to a spool's segments: one thread, and one write and one fdatasync for everything that waits at that moment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from infra.clock import Clock
from infra.segments import Segment
from infra.spools import Folder, Place, sync_folder
from schemas.errors import SpoolUnavailable

MOST_BYTES = 8 * 1024 * 1024
"""Of one write: who came first should not wait for all who came later."""

Answer = asyncio.Future[Place]


@dataclass(frozen=True, slots=True)
class _Waiting:
    payload: bytes
    events: int
    synced: Answer
    then: Callable[[Place | None], None]


class GroupCommit:
    """Appends records to the newest segment; after any error that segment is left for good.

    A disk that failed to sync may have dropped what it was given and say next time that all is well. So what was synced before
    the error is believed, what was part of it is cut off, and nothing is ever added behind it.
    Whoever waits is told, whatever happens: the thread goes on after an error, and if it cannot, everybody hears so from then on.
    """

    def __init__(self, folder: Folder, *, first_number: int, segment_bytes: int, clock: Clock) -> None:
        self._folder = folder
        self._next_number = first_number
        self._segment_bytes = segment_bytes
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._sealing: list[Answer] = []
        self._in_hand: list[_Waiting] = []
        self._sealing_in_hand: list[Answer] = []
        self._is_closing = False
        self._has_ended = False
        self._segment: Segment | None = None
        self._descriptor = -1
        self._end = 0
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    async def write(self, payload: bytes, *, events: int, then: Callable[[Place | None], None]) -> None:
        """Returns when its record is synced; raises SpoolUnavailable, and then it may be there or not.

        `then` is told the end of the record, or None, also when whoever waits has been cancelled meanwhile.
        """
        synced: Answer = self._loop.create_future()
        with self._changed:
            if self._has_ended:
                then(None)
                raise SpoolUnavailable(self._why_ended)
            self._waiting.append(_Waiting(payload, events, synced, then))
            self._changed.notify()
        await synced

    async def seal(self) -> Place:
        """Lets the next record begin a new segment; where that will be. All segments before it are whole and may be deleted.

        Raises SpoolUnavailable when there is no next record, as the thread has ended.
        """
        sealed: Answer = self._loop.create_future()
        with self._changed:
            if self._has_ended:
                raise SpoolUnavailable(self._why_ended)
            self._sealing.append(sealed)
            self._changed.notify()
        return await sealed

    async def close(self) -> None:
        """Returns when everything that waited has been written."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    @property
    def _why_ended(self) -> str:
        return f"nobody writes to the spool {self._folder.path} any more; the receiver has to be started again"

    def _run(self) -> None:
        try:
            while self._take():
                for part in parts(tuple(self._in_hand)):
                    self._commit(part)
                    del self._in_hand[: len(part)]
                if self._sealing_in_hand:
                    self._leave()
                    self._loop.call_soon_threadsafe(_sealed, self._sealing_in_hand, Place(self._next_number, 0))
            self._leave()
        finally:
            self._end_for_good()

    def _take(self) -> bool:
        """Waits for something to do, and has it in hand; false when there will be nothing more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._sealing or self._is_closing)
            self._in_hand, self._waiting = self._waiting, []
            self._sealing_in_hand, self._sealing = self._sealing, []
        return bool(self._in_hand or self._sealing_in_hand)

    def _end_for_good(self) -> None:
        with self._changed:
            self._has_ended = True
            waiting = [*self._in_hand, *self._waiting]
            sealing = [*self._sealing_in_hand, *self._sealing]
        with contextlib.suppress(RuntimeError):  # The event loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(_failed, waiting, self._why_ended)
            self._loop.call_soon_threadsafe(_not_sealed, sealing, self._why_ended)

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        try:
            ends = self._write(batch)
        except OSError as error:
            self._fail(batch, why=f"the disk of the spool {self._folder.path} failed: {error}")
        except Exception as error:
            # No memory, or a mistake of ours: a thread that ended by it would leave everybody waiting for ever.
            self._fail(batch, why=f"writing to the spool {self._folder.path} failed: {error!r}")
        else:
            self._loop.call_soon_threadsafe(_synced, batch, ends)

    def _fail(self, batch: Sequence[_Waiting], *, why: str) -> None:
        self._cut()
        self._loop.call_soon_threadsafe(_failed, batch, why)

    def _write(self, batch: Sequence[_Waiting]) -> list[Place]:
        segment = self._open_segment()
        now_ms = self._clock.now_ms()
        frames = [segment.frame(waiting.payload, events=waiting.events, at_ms=now_ms) for waiting in batch]
        write_all(self._descriptor, b"".join(frames))
        os.fdatasync(self._descriptor)
        ends = []
        for frame in frames:
            self._end += len(frame)
            ends.append(Place(segment.number, self._end))
        return ends

    def _open_segment(self) -> Segment:
        if self._segment is not None and self._end >= self._segment_bytes:
            self._leave()
        if self._segment is None:
            self._segment = Segment.new(self._folder.path, number=self._next_number)
            self._next_number += 1
            self._end = 0
            self._descriptor = os.open(self._segment.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            sync_folder(self._folder.path)
        return self._segment

    def _cut(self) -> None:
        """Leaves the segment as it was when it was last synced, and none where nothing was: a full disk has no room for those."""
        # If that fails too, there is more in it than was answered for, and it is appended as well: its senders will repeat it.
        with contextlib.suppress(OSError):
            if self._descriptor >= 0:
                os.ftruncate(self._descriptor, self._end)
            if self._segment is not None and not self._end:
                self._segment.path.unlink()
        self._leave()

    def _leave(self) -> None:
        descriptor, self._descriptor, self._segment = self._descriptor, -1, None
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # All that counts has been synced, or has been answered with an error.
                os.close(descriptor)


def _synced(batch: Sequence[_Waiting], ends: Sequence[Place]) -> None:
    for waiting, end in zip(batch, ends, strict=True):
        waiting.then(end)
        if not waiting.synced.done():
            waiting.synced.set_result(end)


def _failed(batch: Sequence[_Waiting], why: str) -> None:
    for waiting in batch:
        waiting.then(None)
        if not waiting.synced.done():
            waiting.synced.set_exception(SpoolUnavailable(why))


def _sealed(sealing: Sequence[Answer], place: Place) -> None:
    for answer in sealing:
        if not answer.done():
            answer.set_result(place)


def _not_sealed(sealing: Sequence[Answer], why: str) -> None:
    for answer in sealing:
        if not answer.done():
            answer.set_exception(SpoolUnavailable(why))


def parts(batch: Sequence[_Waiting]) -> Iterator[list[_Waiting]]:
    """What is written at a time: never more than about MOST_BYTES, unless one alone is larger. Pure."""
    part: list[_Waiting] = []
    size_bytes = 0
    for waiting in batch:
        if part and size_bytes + len(waiting.payload) > MOST_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(waiting)
        size_bytes += len(waiting.payload)
    if part:
        yield part


def write_all(descriptor: int, data: bytes) -> None:
    """A write may take a part only, most of all when the disk is about to be full."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
