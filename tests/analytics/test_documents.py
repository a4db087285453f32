from __future__ import annotations

import pytest

from analytics.gold_tables import GOLD_TABLES
from analytics.settings import ArchiveSettings
from analytics.tables import TABLES, Table
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules

PAGE = ROOT / "analytics" / "README.md"


@pytest.mark.parametrize("table", [*TABLES, *GOLD_TABLES], ids=lambda table: table.name)
def test_the_page_tells_every_column_of_a_table(table: Table) -> None:
    columns = [f"| `{column.name}` | `{column.type}` | {column.comment} |" for column in table.columns]

    assert table_rows(PAGE, heading=table.name, first="column") == columns


def test_the_page_tells_every_table() -> None:
    rows = table_rows(PAGE, heading="Tables", first="table")

    assert [row.split("`")[1] for row in rows] == [table.name for table in TABLES]


def test_the_page_tells_every_setting() -> None:
    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows({"archive": ArchiveSettings})


def test_the_page_names_every_file() -> None:
    assert unnamed_modules(PAGE) == set()
