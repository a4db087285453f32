"""Owns disks that fail: a file system in a file, which can be copied as a power cut would leave it, one that can be filled, and syncs
that take long or fail.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.infra.running.processes import until

IMAGE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted ext4 in a file."""

    image: Path
    mounted: Path

    @contextmanager
    def after_a_power_cut(self) -> Iterator[Path]:
        """What is on the disk at this moment: neither what the file system holds in memory, nor what it would still do in order."""
        copy = self.image.with_name(f"{self.image.name}.cut")
        shutil.copyfile(self.image, copy)
        with mounted(copy, on=self.mounted.with_name(f"{self.mounted.name}-after")) as at:
            yield at


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    _run("mkfs.ext4", "-q", "-F", str(image))
    with mounted(image, on=folder / "disk") as at:
        yield Disk(image, at)


@contextmanager
def mounted(image: Path, *, on: Path) -> Iterator[Path]:
    on.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", str(image), str(on))
    try:
        yield on
    finally:
        _run("umount", "--lazy", str(on))


@contextmanager
def small_disk(folder: Path, *, size: str) -> Iterator[Path]:
    """A disk in memory, which is soon full."""
    at = folder / "small"
    at.mkdir(parents=True)
    with _in_memory(at, size=size):
        yield at


@contextmanager
def small_disk_over(directory: Path, *, size: str) -> Iterator[Path]:
    """The same in the place of a directory that somebody uses: what it holds is hidden meanwhile, but for its folders, which are empty.

    Folders that are made meanwhile are there afterwards, too: whoever made them knows of them.
    """
    folders = _folders_in(directory)
    try:
        with _in_memory(directory, size=size):
            _make_folders(folders, at=directory)
            try:
                yield directory
            finally:
                folders = _folders_in(directory)
    finally:
        _make_folders(folders, at=directory)


def _folders_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.is_dir()]


def _make_folders(names: list[str], *, at: Path) -> None:
    for name in names:
        (at / name).mkdir(exist_ok=True)


def enlarge(at: Path, *, size: str) -> None:
    """Gives a small disk more room, without a word to those who use it."""
    _run("mount", "-o", f"remount,size={size}", str(at))


@contextmanager
def _in_memory(at: Path, *, size: str) -> Iterator[None]:
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(at))


@contextmanager
def injected(pid: int, fault: str) -> Iterator[None]:
    """Harms the syncs of a process that runs; skips the test where that is not possible."""
    if shutil.which("strace") is None or os.geteuid() != 0:
        pytest.skip("strace is missing, or may not be used")
    command = ["strace", "-f", "-qq", "-p", str(pid), "-e", "trace=fdatasync", "-e", f"inject=fdatasync:{fault}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
        try:
            until(lambda: all(is_traced(task) for task in Path(f"/proc/{pid}/task").iterdir()), what="strace has attached")
            yield
        finally:
            tracer.terminate()


def is_traced(task: Path) -> bool:
    try:
        return "TracerPid:\t0" not in (task / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True  # It has ended meanwhile.


@functools.cache
def why_no_mounts() -> str:
    """Why this machine lets us mount nothing, or an empty text: tried, since rights tell little in containers."""
    if os.geteuid() != 0:
        return "mounting needs root"
    for tool in ("mkfs.ext4", "losetup", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"{tool} is missing"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with disk(Path(folder)):
                return ""
        except subprocess.CalledProcessError as error:
            return f"no file can be mounted here: {error.stderr.strip()}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
