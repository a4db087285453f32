from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from infra.setting_files import FilesNow
from ingest.body_schemas import BodySchemas
from schemas.errors import ConfigError, SchemaMismatch

PUSH = {"type": "object", "properties": {"ref": {"type": "string", "pattern": "^refs/"}}, "required": ["ref"]}


def schemas(home: Path, *, on_mismatch: Literal["refuse", "flag"] = "flag", **by_type: Any) -> BodySchemas:
    for number, schema in enumerate(by_type.values()):
        (home / f"{number}.json").write_bytes(schema if isinstance(schema, bytes) else orjson.dumps(schema))
    references = {name.replace("_", "."): f"file:{number}.json" for number, name in enumerate(by_type)}
    read = BodySchemas.read(references, on_mismatch=on_mismatch, home=home, files=FilesNow(), at="tenants.demo.sources.github.schemas")
    assert read is not None
    return read


def test_a_source_without_schemas_checks_nothing(tmp_path: Path) -> None:
    assert BodySchemas.read({}, on_mismatch="refuse", home=tmp_path, files=FilesNow(), at="here") is None


def test_what_fits_and_what_has_no_schema_passes(tmp_path: Path) -> None:
    checked = schemas(tmp_path, on_mismatch="refuse", github_push=PUSH)

    assert checked.flags_for({"ref": "refs/heads/main"}, event_type="github.push") == ()
    assert checked.flags_for({"anything": 1}, event_type="github.issues.opened") == ()
    assert checked.flags_for(None, event_type="github.push_to") == ()


def test_a_mismatch_is_flagged_or_refused_with_its_place_and_without_the_value(tmp_path: Path) -> None:
    content = {"ref": "a secret of the sender"}

    assert schemas(tmp_path, github_push=PUSH).flags_for(content, event_type="github.push") == ("schema_mismatch",)
    with pytest.raises(SchemaMismatch, match=r"github\.push: at /ref: the value does not match \"\^refs/\"") as caught:
        schemas(tmp_path, on_mismatch="refuse", github_push=PUSH).flags_for(content, event_type="github.push")
    assert "secret" not in str(caught.value)


def test_the_most_specific_schema_counts(tmp_path: Path) -> None:
    checked = BodySchemas.read(
        {"*": "file:no.json", "github.*": "file:no.json", "github.issues.*": "file:yes.json", "github.issues.closed": "file:no.json"},
        on_mismatch="flag", home=_files(tmp_path, {"yes.json": b"true", "no.json": b"false"}), files=FilesNow(), at="here",
    )  # fmt: skip
    assert checked is not None

    assert [bool(checked.why_not({}, event_type=name)) for name in ("github.issues.opened", "github.issues.closed")] == [False, True]
    assert [bool(checked.why_not({}, event_type=name)) for name in ("github.push", "gitlab", "github.issues")] == [True, True, True]


def _files(home: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        (home / name).write_bytes(content)
    return home


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (b"{", "is no JSON"),
        (b'{"type": "nonsense"}', "is no JSON Schema that can be used"),
        (b"5", "is no JSON Schema that can be used"),
        (b'{"$ref": "#/$defs/missing"}', "does not exist"),
        (b'{"$ref": "http://127.0.0.1:9/schema.json"}', "Retrieval is disabled"),
        (b'{"$ref": "file:///etc/hostname"}', "Retrieval is disabled"),
        (b'{"pattern": "(?=a)a"}', "regex"),
        (b'{"pattern": "(a)\\\\1"}', "regex"),
    ],
)
def test_a_schema_that_cannot_be_used_stops_the_start(tmp_path: Path, schema: bytes, says: str) -> None:
    with pytest.raises(ConfigError, match=r"sources\.github\.schemas\.github\.push: .*0\.json") as caught:
        schemas(tmp_path, github_push=schema)

    assert says in str(caught.value)


@pytest.mark.parametrize("reference", ["push.json", "env:PUSH", "http://127.0.0.1/push.json", "file:", ""])
def test_a_schema_is_a_file(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigError, match="a schema is named by its file"):
        BodySchemas.read({"github.push": reference}, on_mismatch="flag", home=tmp_path, files=FilesNow(), at="here")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"here\.github\.push: .*push\.json cannot be read"):
        BodySchemas.read({"github.push": "file:push.json"}, on_mismatch="flag", home=tmp_path, files=FilesNow(), at="here")


HOSTILE = {
    "half a character": {"ref": "\ud800"},
    "no number": {"ref": "refs/", "n": float("inf")},
    "a very long one": {"ref": "refs/", "n": 10**4000},
    "nothing": None,
    "a list": [1] * 1000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_no_content_breaks_the_check(tmp_path: Path, content: object) -> None:
    checked = schemas(tmp_path, x={**PUSH, "additionalProperties": {"type": "integer", "maximum": 5}})

    assert checked.why_not(content, event_type="x")


def test_deep_nesting_is_checked_or_refused_and_never_more(tmp_path: Path) -> None:
    checked = schemas(tmp_path, x={"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}})
    content: list[Any] = []
    for _ in range(1000):
        content = [content]

    assert isinstance(checked.why_not(content, event_type="x"), str)


def test_a_pattern_that_explodes_elsewhere_takes_linear_time(tmp_path: Path) -> None:
    checked = schemas(tmp_path, x={"type": "string", "pattern": "^(a+)+$"})

    began = time.monotonic()
    assert checked.why_not("a" * 200_000 + "!", event_type="x")
    assert time.monotonic() - began < 5
