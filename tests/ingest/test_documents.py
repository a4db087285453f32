"""The manual page says what the code does: its tables of settings and schemes are compared with the models."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ingest.schemes import SCHEMES, Scheme
from ingest.settings import IngestSettings, SourceSettings, TenantSettings

PAGE = Path(__file__).parents[2] / "ingest" / "README.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "ingest": IngestSettings,
    "tenants.<tenant>": TenantSettings,
    "tenants.<tenant>.sources.<source>": SourceSettings,
}


def setting_rows() -> Iterator[str]:
    for section, model in SECTIONS.items():
        for name, field in model.model_fields.items():
            yield f"| `{section}.{name}` | {default_of(field)} | {field.description} |"


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    value = value.value if isinstance(value, Enum) else value
    return "" if value in (None, (), {}) else f"`{value}`"


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


def table_rows(page: str, *, heading: str) -> list[str]:
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    assert table_rows(PAGE.read_text(), heading="Settings") == list(setting_rows())


def test_the_page_has_every_scheme_and_no_other() -> None:
    assert table_rows(PAGE.read_text(), heading="Schemes") == list(scheme_rows())


def test_the_page_names_every_module() -> None:
    named = PAGE.read_text().split("## Files", 1)[1]

    modules = {path.name for path in PAGE.parent.glob("*.py")} - {"__init__.py", "__main__.py", "settings.py"}
    assert {module for module in modules if f"`{module}`" not in named} == set()
