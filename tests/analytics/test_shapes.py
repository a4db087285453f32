from __future__ import annotations

import pytest

from analytics.shapes import DEEPEST, MOST_MEMBERS, is_plain, paths_of


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("BIGINT", [("$", "integer")]),
        ("OBJECT<>", [("$", "object")]),
        ("OBJECT<a: STRING, b: VOID>", [("$", "object"), ("a", "string"), ("b", "null")]),
        ("OBJECT<a: DECIMAL(3,1), b: DECIMAL(20,0), c: DOUBLE>", [("$", "object"), ("a", "number"), ("b", "integer"), ("c", "number")]),
        (
            "OBJECT<a: ARRAY<OBJECT<b: BOOLEAN>>, c: ARRAY<VARIANT>>",
            [("$", "object"), ("a", "array"), ("a[]", "object"), ("a[].b", "boolean"), ("c", "array"), ("c[]", "mixed")],
        ),
        ("OBJECT<a: ARRAY<VOID>>", [("$", "object"), ("a", "array")]),
        ("ARRAY<ARRAY<BIGINT>>", [("$", "array"), ("[]", "array"), ("[][]", "integer")]),
        ("OBJECT<`a: b>`: STRING, `it``s`: BIGINT, z: STRING>", [("$", "object"), ("*", "string"), ("*", "integer"), ("z", "string")]),
    ],
)
def test_a_shape_has_these_paths(schema: str, paths: list[tuple[str, str]]) -> None:
    assert list(paths_of(schema)) == paths


@pytest.mark.parametrize("schema", ["", "OBJECT<a: STRING", "OBJECT<a STRING>", "STRING>", "ARRAY<>", "lower"])
def test_what_is_no_shape_is_refused(schema: str) -> None:
    with pytest.raises(ValueError):
        paths_of(schema)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("full_name", True),
        ("event-data", True),
        ("@context", True),
        ("octo@example.com", False),
        ("src/main.py", False),
        ("20260115", False),
        ("9fceb02d0ae598e95dc970b74767f19372d61af8", False),
        ("0199aaaa-0000-7000-8000-000000000001", False),
        ("x" * 65, False),
        ("", False),
    ],
)
def test_names_that_are_data_are_no_part_of_a_path(name: str, plain: bool) -> None:
    assert is_plain(name) is plain


def test_an_object_of_very_many_members_is_a_map() -> None:
    members = ", ".join(f"a{number}: STRING" for number in range(MOST_MEMBERS + 1))

    assert list(paths_of(f"OBJECT<{members}>")) == [("$", "object"), ("*", "string")]


def test_what_lies_deeper_is_not_told() -> None:
    deep = "OBJECT<a: " * 20 + "STRING" + ">" * 20

    assert list(paths_of(deep))[-1] == (".".join("a" * DEEPEST), "object")


@pytest.mark.parametrize("levels", [500, 1000, 100_000])
@pytest.mark.parametrize(("opening", "kind"), [("OBJECT<a: ", "object"), ("ARRAY<", "array"), ("OBJECT<`<``<`: ARRAY<", "object")])
def test_no_payload_is_nested_too_deep_to_be_looked_at(opening: str, kind: str, levels: int) -> None:
    deep = opening * levels + "STRING" + ">" * opening.replace("`<``<`", "").count("<") * levels

    paths = paths_of(f"OBJECT<first: {deep}, last: BIGINT>")

    assert list(paths)[-1] == ("last", "integer")
    assert len(paths) == DEEPEST + 2
    assert list(paths)[1] == ("first", kind)


@pytest.mark.parametrize("end", ["STRING" + ">" * 19, "`>`: STRING" + ">" * 19, "STRING" + ">" * 21])
def test_what_is_deep_and_no_shape_is_refused(end: str) -> None:
    with pytest.raises(ValueError):
        paths_of("OBJECT<a: " * 20 + end)
