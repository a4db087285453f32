"""Owns the two clocks of a process and the ids made from them, so that tests can hold time still."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall time for what is written down, monotonic time for what is waited for."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic: Callable[[], float] = time.monotonic

    def now_ms(self) -> int:
        return self.wall_ns() // 1_000_000

    def now(self) -> datetime:
        """The time in whole milliseconds, so that it survives the way through a stream unchanged."""
        return moment(self.now_ms())


def moment(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


class RandomDigits:
    """Texts of random hexadecimal digits, made many at a time of what the system gives: a receiver needs some for every event."""

    __slots__ = ("_length", "_ready")
    MANY = 256

    def __init__(self, length: int) -> None:
        self._length = length
        self._ready: list[str] = []

    def take(self) -> str:
        try:
            return self._ready.pop()
        except IndexError:  # Safe in several threads, which may all find it empty.
            length, digits = self._length, os.urandom(self.MANY * (self._length + 1) // 2).hex()
            self._ready += [digits[at : at + length] for at in range(0, self.MANY * length, length)]
            return self._ready.pop()


@dataclass(slots=True)
class EventIds:
    """Mints UUIDv7s that only grow within this process, also when the wall clock steps back."""

    clock: Clock
    _last_ms: int = 0
    _counter: int = 0
    """The next id has it."""
    _start: str = ""
    """What all ids of a millisecond begin with."""
    _random: RandomDigits = field(default_factory=lambda: RandomDigits(16))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def mint(self) -> str:
        return self.mint_many(1)[0]

    def mint_many(self, count: int) -> list[str]:
        """In the order in which they grow."""
        with self._lock:
            now_ms = self.clock.now_ms()
            if now_ms > self._last_ms:
                self._begin(now_ms, counter=int(self._random.take()[:3], 16) & 0x07FF)
            return [self._next(self._random.take()) for _ in range(count)]

    def _next(self, random: str) -> str:
        if self._counter > 0x0FFF:
            self._begin(self._last_ms + 1, counter=0)
        minted = f"{self._start}{self._counter:03x}-{_VARIANTS[random[0]]}{random[1:4]}-{random[4:]}"
        self._counter += 1
        return minted

    def _begin(self, now_ms: int, *, counter: int) -> None:
        self._last_ms, self._counter, time = now_ms, counter, f"{now_ms:012x}"
        self._start = f"{time[:8]}-{time[8:]}-7"


_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""The first digit of a UUID's second half says that it is one; two of its bits are random."""


def uuid_text(value: bytes) -> str:
    """As `str(uuid.UUID(bytes=value))`, for a third of its price: a receiver writes two for each event."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid_bytes(text: str) -> bytes:
    """Of a UUID that is known to be one."""
    return bytes.fromhex(text.replace("-", ""))
