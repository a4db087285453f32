"""Owns processes whose clock is wrong: a few lines of C between them and the kernel's clock, compiled where there is a compiler."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from tests.contracts.replicas import ReplicatedServer

SHIM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifdef STEP_FILE
static long step(void) {
    char text[32] = {0};
    int file = open(STEP_FILE, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    long length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}
#else
static long step(void) { return STEP_S; }
#endif

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    if (!failed) { now->tv_sec = precise.tv_sec; now->tv_usec = precise.tv_nsec / 1000; }
    return failed;
}

time_t time(time_t *found) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (found) *found = precise.tv_sec;
    return precise.tv_sec;
}
"""


def clock_shim(directory: Path, *, step_s: int) -> Path:
    """A library that sets the clock of a process forward, or back; skips the test where nothing can compile it."""
    return _compiled(directory, f"-DSTEP_S={step_s}")


class MovingClock:
    """The clock of all processes that preload `library`, moved while they run."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "step"
        self.library = _compiled(directory, f'-DSTEP_FILE="{self._file}"')

    def step(self, seconds: int) -> None:
        """That many seconds from the true time, from now on."""
        following = self._file.with_suffix(".next")
        following.write_text(f"{seconds}\n")
        following.replace(self._file)


def _compiled(directory: Path, *definitions: str) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a wrong clock with")
    source, library = directory / "clock.c", directory / "clock.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", *definitions, "-o", str(library), str(source)], check=True, capture_output=True)
    return library


@dataclass(slots=True)
class ServerOfAnotherTime(ReplicatedServer):
    """A server that believes its `shim`."""

    shim: Path = Path()

    def command(self) -> list[str]:
        # `env` becomes the server, so that its process id is the server's.
        return ["env", f"LD_PRELOAD={self.shim}", *EmbeddedServer.command(self)]
