from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from analytics.parameters import Value, bound, parameters_of
from schemas.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("x=42", 42),
        ("x=-7", -7),
        ("x=007", "007"),
        ("x=1234567890123456789", "1234567890123456789"),
        ("x=1.50", 1.5),
        ("x=true", True),
        ("x=null", None),
        ("x=2026-02-28", date(2026, 2, 28)),
        ("x=2026-02-30", "2026-02-30"),
        ("x=2026-02-28T23:59:59Z", datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)),
        ("x=2026-02-28 23:59", datetime(2026, 2, 28, 23, 59, tzinfo=UTC)),
        ("x=github.push", "github.push"),
        ("x=", ""),
        ("x=a=b", "a=b"),
        ("x=' OR 1=1 --", "' OR 1=1 --"),
        ("x:string=42", "42"),
        ("x:bigint=007", 7),
        ("x:double=1", 1.0),
        ("x:decimal=1.10", Decimal("1.10")),
        ("x:boolean=FALSE", False),
        ("x:timestamp=2026-02-28", datetime(2026, 2, 28, tzinfo=UTC)),
    ],
)
def test_a_value_has_the_type_that_it_looks_like_or_is_said_to_have(given: str, value: Value) -> None:
    (found,) = parameters_of([given]).values()

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["x"], "is no name=value"),
        (["1x=2"], "is no name=value"),
        (["x=1", "x=2"], "is given twice"),
        (["x:money=1"], "has no type that is known"),
        (["x:bigint=one"], "is no bigint"),
        (["x:boolean=null"], "is no boolean"),
        (["x:date=yesterday"], "is no date"),
        (["x:decimal=."], "is no decimal"),
    ],
)
def test_what_is_no_parameter_is_refused_with_a_sentence(given: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parameters_of(given)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT :a", "SELECT 1"),
        ("SELECT * FROM e WHERE x=:a AND(:a)", "SELECT * FROM e WHERE x=1 AND(1)"),
        ("SELECT payload:a, payload:a.b::int, m[1]:a, f(x):a, `p`:a, :a", "SELECT payload:a, payload:a.b::int, m[1]:a, f(x):a, `p`:a, 1"),
        ("SELECT ':a', \"it's :a\", `:a`, 'it''s :a', 'x\\':a', :a", "SELECT ':a', \"it's :a\", `:a`, 'it''s :a', 'x\\':a', 1"),
        ("SELECT :a -- :a\n, :a /* :a */", "SELECT 1 -- :a\n, 1 /* :a */"),
        ("SELECT :ab, :a", "SELECT :ab, 1"),
    ],
)
def test_a_marker_is_replaced_and_what_only_looks_like_one_is_not(sql: str, text: str) -> None:
    assert bound(sql, values={"a": 1}) == text


def test_a_parameter_that_the_query_does_not_ask_for_is_named() -> None:
    with pytest.raises(ConfigError, match="the query has no :b"):
        bound("SELECT :a", values={"a": 1, "b": 2})
