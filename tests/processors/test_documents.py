"""The manual page says what the code does, and its example is a processor."""

from __future__ import annotations

import re
from types import ModuleType

from pydantic import BaseModel

from processors.registry import Registry, specs_in
from processors.settings import DeadLetterSettings, GroupSettings
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules

PAGE = ROOT / "processors" / "README.md"


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    sections: dict[str, type[BaseModel]] = {"groups.<group>": GroupSettings, "dead_letters": DeadLetterSettings}

    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows(sections)


def test_the_page_names_every_module() -> None:
    assert unnamed_modules(PAGE, besides=("__main__.py", "settings.py")) == set()


def test_the_example_is_a_processor() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    module = ModuleType("an_example")
    exec(compile(code, str(PAGE), "exec"), vars(module))

    spec = Registry(specs_in(module)).match("github.pull_request.opened")

    assert spec is not None
    assert spec.max_attempts == 4
