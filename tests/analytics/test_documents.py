from __future__ import annotations

from analytics.settings import ArchiveSettings
from analytics.tables import EVENTS
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules

PAGE = ROOT / "analytics" / "README.md"


def test_the_page_tells_every_column_of_events() -> None:
    columns = [f"| `{column.name}` | `{column.type}` | {column.comment} |" for column in EVENTS.columns]

    assert table_rows(PAGE, heading="Tables", first="column") == columns


def test_the_page_tells_every_setting() -> None:
    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows({"archive": ArchiveSettings})


def test_the_page_names_every_file() -> None:
    assert unnamed_modules(PAGE) == set()
