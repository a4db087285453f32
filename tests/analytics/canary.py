"""Owns looking for a canary in every file: as bytes, piece by piece, and in what Parquet files hold."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

PIECE = 8


def a_canary() -> str:
    """Letters only, so that no encoding changes it; none of its pieces occurs by chance."""
    return "".join(random.SystemRandom().choices(string.ascii_letters, k=40))


def found_in(canary: str, *folders: Path) -> list[str]:
    """What holds a piece of it, inside or in its name. Compression may cut a text in pieces, but keeps what it has not seen before."""
    pieces = [canary[at : at + PIECE].encode() for at in range(len(canary) - PIECE + 1)]
    return [path.as_posix() for path in _files(*folders) if _holds(path, pieces)]


def _files(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in sorted(folder.rglob("*")) if not path.is_symlink())


def _holds(path: Path, pieces: list[bytes]) -> bool:
    content = path.name.encode() + (path.read_bytes() if path.is_file() else b"")
    if path.suffix == ".parquet":
        with path.open("rb") as file:
            content += repr(pq.ParquetFile(file).read().to_pylist()).encode()
    return any(piece in content for piece in pieces)
