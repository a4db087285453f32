from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, Field

from infra.settings import validate
from schemas.errors import ConfigError


class Inner(BaseModel):
    size: int = Field(1, ge=1, le=9)


class Outer(BaseModel):
    size: int = Field(1, ge=1, le=9)
    on: bool = True
    name: str = Field("x", pattern=r"^[a-z]+$")
    kind: Literal["a", "b"] = "a"
    secrets: tuple[str, ...] = ()
    inner: Inner = Inner()
    by_name: dict[str, Inner] = {}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"size": 0}, "outer.size is wrong: it must be at least 1 (it is 0)"),
        ({"size": 10}, "outer.size is wrong: it must be at most 9 (it is 10)"),
        ({"size": "many"}, "outer.size is wrong: it must be a whole number (it is 'many')"),
        ({"size": 1.5}, "outer.size is wrong: it must be a whole number (it is 1.5)"),
        ({"size": None}, "outer.size is wrong: it must be a whole number (it is empty)"),
        ({"on": "perhaps"}, "outer.on is wrong: it must be true or false (it is 'perhaps')"),
        ({"name": 5}, "outer.name is wrong: it must be a text; put it in quotes (it is 5)"),
        ({"name": "A B"}, "outer.name is wrong: it must match ^[a-z]+$ (it is 'A B')"),
        ({"kind": "c"}, "outer.kind is wrong: it must be 'a' or 'b' (it is 'c')"),
        ({"secrets": "hunter2"}, 'outer.secrets is wrong: it must be a list, as in ["..."]'),
        ({"secrets": [12345]}, "outer.secrets.0 is wrong: it must be a text; put it in quotes"),
        ({"inner": 5}, "outer.inner is wrong: it must be a mapping of names to values (it is 5)"),
        ({"by_name": {"a": None}}, "outer.by_name.a is wrong: it must be a mapping of names to values (it is empty)"),
        ([], "outer is wrong: it must be a mapping of names to values"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_a_settings_file(given: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(given, Outer, at="outer")

    assert str(caught.value) == sentence
