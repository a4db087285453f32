from __future__ import annotations

from tests.benchmarks.layout import Layout, table


def test_the_table_has_a_column_for_each_layout_and_medians_of_what_was_asked() -> None:
    one = Layout("one", write_s=10, optimise_s=2, files=30, asked_s={"an event": [3.0, 1.0, 2.0]})
    two = Layout("two", ("id",), write_s=20, optimise_s=4, files=3, asked_s={"an event": [0.5]})

    assert table((one, two)).splitlines() == [
        "| | one | two |",
        "|---|---|---|",
        "| writing | 10 s | 20 s |",
        "| `OPTIMIZE` | 2 s | 4 s |",
        "| files after it | 30 | 3 |",
        "| an event | 2.00 s | 0.50 s |",
    ]
