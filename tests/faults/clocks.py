"""Owns servers whose clock is wrong: a few lines of C between the server and the kernel's clock, compiled where there is a compiler."""

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
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += STEP_S;
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
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a wrong clock with")
    source, library = directory / "clock.c", directory / "clock.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", f"-DSTEP_S={step_s}", "-o", str(library), str(source)], check=True, capture_output=True)
    return library


@dataclass(slots=True)
class ServerOfAnotherTime(ReplicatedServer):
    """A server that believes its `shim`."""

    shim: Path = Path()

    def command(self) -> list[str]:
        # `env` becomes the server, so that its process id is the server's.
        return ["env", f"LD_PRELOAD={self.shim}", *EmbeddedServer.command(self)]
