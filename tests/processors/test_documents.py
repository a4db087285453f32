"""The manual page says what the code does, and its example is a processor."""

from __future__ import annotations

import re
from types import ModuleType

import yaml
from pydantic import BaseModel

from infra.settings import validate
from processors.assignment import module_of
from processors.envelope import headers_of
from processors.registry import Registry, specs_in
from processors.settings import DeadLetterSettings, ForwardSettings, GroupSettings
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules
from tests.events import an_event
from tests.processors.test_envelope import TRACEPARENT, a_delivery

PAGE = ROOT / "processors" / "README.md"


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    sections: dict[str, type[BaseModel]] = {
        "groups.<group>": GroupSettings,
        "groups.<group>.forward": ForwardSettings,
        "dead_letters": DeadLetterSettings,
    }

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


def test_the_example_of_forwarding_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.S)
    options = validate(yaml.safe_load(text)["groups"]["crm"], GroupSettings, at="groups.crm")

    assert options.forward is not None
    assert module_of(options, group="crm", named="") == ""


def test_the_page_has_every_header_of_a_forwarded_event() -> None:
    headers = headers_of(an_event(traceparent=TRACEPARENT), delivery=a_delivery(), at_s=1, key=b"k")

    listed = re.findall(r"`([\w-]+)`", "".join(row.split("|")[1] for row in table_rows(PAGE, heading="Forward", first="header")))
    assert sorted(listed) == sorted(name for name, _ in headers)
