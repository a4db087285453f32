from __future__ import annotations

import os

import pytest

from analytics.sharing import cores_of, shared_master

CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("master", "cores", "shared"),
    [
        ("local", 1, "local[2]"),
        ("local[3]", 3, "local[6]"),
        ("local[*]", CORES, f"local[{2 * CORES}]"),
        ("local[4,2]", None, "local[4,2]"),
        ("local-cluster[2,1,1024]", None, "local-cluster[2,1,1024]"),
        ("spark://host:7077", None, "spark://host:7077"),
    ],
)
def test_on_this_machine_there_is_room_for_a_batch_beside_a_query(master: str, cores: int | None, shared: str) -> None:
    assert cores_of(master) == cores
    assert shared_master(master) == shared
