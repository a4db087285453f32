from __future__ import annotations

import re
from pathlib import Path

import pytest

from processors.__main__ import named_consumer, wanted_names
from schemas.errors import ConfigError


def test_two_workers_of_one_machine_have_two_names_and_keep_them(home: Path) -> None:
    with named_consumer("", group="g", home=home) as first, named_consumer("", group="g", home=home) as second:
        assert first != second
    with named_consumer("", group="g", home=home) as again, named_consumer("", group="other", home=home) as elsewhere:
        assert again == elsewhere == first
        assert re.fullmatch(r".+-0", first)


def test_a_name_in_use_is_refused(home: Path) -> None:
    refused = pytest.raises(ConfigError, match="--consumer mine is the name of a worker that runs in group g already")

    with named_consumer("mine", group="g", home=home), refused, named_consumer("mine", group="g", home=home):
        pass


def test_several_children_number_the_given_name() -> None:
    assert wanted_names("mine", count=1) == ["mine"]
    assert wanted_names("mine", count=2) == ["mine-0", "mine-1"]
    assert wanted_names("", count=2) == ["", ""]
