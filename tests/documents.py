"""Owns comparing a manual page with the code: the rows that a table has, and the rows that the models call for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).parent.parent


def table_rows(page: Path, *, heading: str, first: str) -> list[str]:
    """The rows of the table with this first column, in the section with this heading."""
    section = page.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = section.split(f"| {first} |", 1)[1].split("\n\n", 1)[0]
    return [line for line in table.splitlines()[2:] if line.startswith("|")]


def setting_rows(sections: Mapping[str, type[BaseModel]]) -> list[str]:
    """What a page must say of these sections: each setting, its default, its description."""
    return [
        f"| `{section}.{name}` | {default_of(field)} | {field.description} |"
        for section, model in sections.items()
        for name, field in model.model_fields.items()
    ]


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    value = value.value if isinstance(value, Enum) else value
    if value in (None, (), {}, ""):
        return ""
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`"


def unnamed_modules(page: Path, *, folders: tuple[str, ...] = (".",), besides: tuple[str, ...] = ()) -> set[str]:
    """The modules beside a page that its section `Files` does not name."""
    named = page.read_text().split("## Files", 1)[1]
    found = {path.relative_to(page.parent).as_posix() for folder in folders for path in (page.parent / folder).glob("*.py")}
    return {name for name in found if f"`{name}`" not in named and Path(name).name not in ("__init__.py", *besides)}
