from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from analytics.scrub import fits, has_its_checksum, scrub

CONTENT = bytes(range(256)) * 5


def sums_of(content: bytes, *, chunk: int = 512) -> bytes:
    sums = b"".join(struct.pack(">I", zlib.crc32(content[at : at + chunk])) for at in range(0, len(content), chunk))
    return b"crc\0" + struct.pack(">I", chunk) + sums


def test_a_file_fits_its_checksums_and_no_other() -> None:
    assert fits(CONTENT, sums=sums_of(CONTENT))
    assert fits(b"", sums=sums_of(b""))
    assert not fits(CONTENT[:-1], sums=sums_of(CONTENT))
    assert not fits(CONTENT + b"x", sums=sums_of(CONTENT))
    for at in (0, 511, 512, len(CONTENT) - 1):
        assert not fits(CONTENT[:at] + bytes([CONTENT[at] ^ 1]) + CONTENT[at + 1 :], sums=sums_of(CONTENT))


@pytest.mark.parametrize("sums", [b"", b"crc\0", b"xyz\0\0\0\2\0", b"crc\0\0\0\0\0"])
def test_broken_checksums_fit_nothing(sums: bytes) -> None:
    assert not fits(CONTENT, sums=sums)


def test_a_file_that_is_gone_is_damaged_and_one_without_a_checksum_is_only_counted(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / "1.json").write_bytes(CONTENT)
    (log / "_last_checkpoint").write_bytes(b"{}")
    data = tmp_path / "part-1.parquet"
    data.write_bytes(CONTENT)
    data.with_name(".part-1.parquet.crc").write_bytes(sums_of(CONTENT))

    found = scrub(tmp_path, data_files=[data, tmp_path / "part-2.parquet"])

    assert (found.files, found.damaged, found.unchecked) == (3, ["part-2.parquet"], 1)
    assert has_its_checksum(data) is True
