"""The manual page says what the code does: its tables of settings and schemes are compared with the models."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from ingest.schemes import SCHEMES, Scheme
from ingest.settings import IngestSettings, RateSettings, SourceSettings, TenantSettings
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules

PAGE = ROOT / "ingest" / "README.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "ingest": IngestSettings,
    "tenants.<tenant>": TenantSettings,
    "tenants.<tenant>.rate": RateSettings,
    "tenants.<tenant>.sources.<source>": SourceSettings,
}


def scheme_rows() -> Iterator[str]:
    return (scheme_row(scheme) for scheme in SCHEMES.values())


def scheme_row(scheme: Scheme) -> str:
    cells = (
        scheme.name,
        scheme.signature_header,
        scheme.prefix,
        scheme.encoding,
        scheme.algorithm,
        scheme.delivery_id_header,
        scheme.event_type_header,
    )
    return "| " + " | ".join(f"`{cell}`" if cell else "as set" for cell in cells) + " |"


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows(SECTIONS)


def test_the_page_has_every_scheme_and_no_other() -> None:
    assert table_rows(PAGE, heading="Schemes", first="scheme") == list(scheme_rows())


def test_the_page_names_every_module() -> None:
    assert unnamed_modules(PAGE, besides=("__main__.py", "settings.py")) == set()
