from __future__ import annotations

import pytest
from pydantic import ValidationError

from infra.settings import LogSettings
from infra.streams.caps import Weight, cap_bytes, described, weight_of

GIB = 1024**3


@pytest.mark.parametrize(
    ("cap", "limit_bytes", "expected"),
    [("80%", 1000, 800), ("1%", 99, 0), ("80%", 0, None), ("2GiB", 0, 2 * GIB), ("3MiB", 5, 3 * 1024**2), ("7KiB", 5, 7168)],
)
def test_a_cap_is_a_share_of_the_limit_or_an_amount(cap: str, limit_bytes: int, expected: int | None) -> None:
    assert cap_bytes(cap, limit_bytes=limit_bytes) == expected


def weight(used: int, *, maxmemory: int = 0, machine: int = 0, **caps: str) -> Weight:
    return weight_of([0, used, maxmemory, machine, 0], log=LogSettings(**caps))


def test_the_limit_is_the_servers_own_or_half_of_its_machine() -> None:
    assert (weight(1, maxmemory=1000).hard_bytes, weight(1, maxmemory=1000, machine=10).soft_bytes) == (800, 600)
    assert (weight(1, machine=1000).hard_bytes, weight(1, machine=1000).soft_bytes) == (400, 300)


def test_a_log_is_heavy_above_the_soft_cap_and_full_above_the_hard_one() -> None:
    found = [(one.is_heavy, one.is_full) for one in (weight(used, maxmemory=1000) for used in (600, 601, 800, 801))]

    assert found == [(False, False), (True, False), (True, False), (True, True)]


def test_shares_of_an_unknown_limit_refuse_nobody() -> None:
    assert (weight(10**15).is_heavy, weight(10**15).is_full) == (False, False)


def test_a_soft_cap_never_comes_out_above_the_hard_one() -> None:
    mixed = weight(1, maxmemory=10 * GIB, soft_cap="50%", hard_cap="1GiB")

    assert (mixed.soft_bytes, mixed.hard_bytes) == (GIB, GIB)


@pytest.mark.parametrize(
    ("soft", "hard"), [("80%", "80%"), ("90%", "80%"), ("1GiB", "1024MiB"), ("0%", "80%"), ("100%", "80%"), ("5", "80%")]
)
def test_caps_that_make_no_sense_are_refused(soft: str, hard: str) -> None:
    with pytest.raises(ValidationError, match=r"soft_cap|should match pattern"):
        LogSettings(soft_cap=soft, hard_cap=hard)


def test_an_operator_reads_one_line() -> None:
    assert described(weight(GIB, maxmemory=10 * GIB)) == "1.0 GiB of 10.0 GiB (maxmemory); soft cap 6.0 GiB, hard cap 8.0 GiB"
    assert "as the server has no maxmemory" in described(weight(GIB, machine=10 * GIB))
    assert described(weight(GIB)) == "1.0 GiB of an unknown amount; soft cap unknown, hard cap unknown"
