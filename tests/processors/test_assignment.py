from __future__ import annotations

from pathlib import Path

import pytest

from processors.assignment import assigned, module_of
from processors.settings import GroupSettings
from schemas.errors import ConfigError

FORWARDS = GroupSettings.model_validate({"forward": {"url": "https://crm.example/in", "types": ["github.*"]}})


def test_a_module_that_is_named_comes_before_the_settings() -> None:
    options = GroupSettings(module="of_the_settings")

    assert module_of(options, group="g", named="") == "of_the_settings"
    assert module_of(options, group="g", named="named") == "named"


def test_a_group_that_forwards_has_no_module() -> None:
    assert module_of(FORWARDS, group="g", named="") == ""


def test_a_group_with_nothing_to_run_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^groups.g has neither module nor forward and no module was named, so group g would have"):
        module_of(GroupSettings(), group="g", named="")


@pytest.mark.parametrize("named", ["", "named"])
def test_a_group_that_runs_a_module_and_forwards_is_refused(named: str) -> None:
    options = FORWARDS.model_copy(update={"module": "" if named else "a_module"})

    with pytest.raises(ConfigError, match=r"^groups.g has a module and forward, and an event goes to one processor only"):
        module_of(options, group="g", named=named)


async def test_a_group_runs_its_module(home: Path) -> None:
    async with assigned("g", options=GroupSettings(), module="processors.example", home=home) as registry:
        assert [spec.name for spec in registry.specs] == ["processors.example:note"]


async def test_a_group_that_forwards_runs_the_forwarder(home: Path) -> None:
    async with assigned("g", options=FORWARDS, module="", home=home) as registry:
        spec = registry.match("github.push")

        assert registry.match("stripe.paid") is None

    assert spec is not None
    assert (spec.name, spec.patterns) == ("forward:https://crm.example", ("github.*",))
