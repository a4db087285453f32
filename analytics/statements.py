"""Owns which SQL `hooklake query` runs: what Spark's own parser says is a question about our tables, and nothing else.

Spark SQL can read any file (`parquet.`/path``), run static Java methods (`reflect`), change settings and drop tables. So this is
an allow-list in three layers: the kinds of nodes a parsed statement may have, the names it may read from, and the functions
that the session still knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from schemas.errors import ConfigError

ALLOWED_NODES = frozenset(
    {
        "Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "LateralJoin", "LocalLimit",
        "LocalRelation", "Offset", "OneRowRelation", "Pivot", "Project", "Sample", "Sort", "SubqueryAlias", "Union", "UnresolvedHaving",
        "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation", "UnresolvedSubqueryColumnAliases",
        "UnresolvedTableValuedFunction", "UnresolvedWith", "Unpivot", "WithWindowDefinition",
    }
)  # fmt: skip
ALLOWED_TABLE_FUNCTIONS = frozenset(
    {
        "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "range", "stack",
        "variant_explode", "variant_explode_outer",
    }
)  # fmt: skip
# They run Java, or read files that are named in the query.
REMOVED_FUNCTIONS = frozenset(
    {
        "reflect", "java_method", "try_reflect", "from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "xpath",
    "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string",
    }
)  # fmt: skip


def harden(spark: SparkSession) -> None:
    """Takes from the session what a question does not need; for sessions that do nothing but answer."""
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    # Else ${env:NAME} in a query would print the environment.
    spark.conf.set("spark.sql.variable.substitute", "false")
    state = _state(spark)
    _drop(state.functionRegistry(), unwanted=lambda name: name in REMOVED_FUNCTIONS)
    _drop(state.tableFunctionRegistry(), unwanted=lambda name: name not in ALLOWED_TABLE_FUNCTIONS)


def _drop(registry: Any, *, unwanted: Callable[[str], bool]) -> None:
    for identifier in _items(registry.listFunction()):
        if unwanted(identifier.funcName()):
            registry.dropFunction(identifier)


def refuse_all_but_questions(spark: SparkSession, *, sql: str) -> None:
    """Raises ConfigError for what does not parse, or is more than a question about our tables. Executes nothing."""
    try:
        parsed = _state(spark).sqlParser().parsePlan(sql)
    except ParseException as error:
        raise ConfigError(f"the query cannot be parsed: {error.getMessage() or error}") from error
    for node in _nodes(parsed):
        refuse_node(node)


def refuse_node(node: Any) -> None:
    kind = node.getClass().getSimpleName()
    if kind not in ALLOWED_NODES:
        raise ConfigError(f"the query has a part that only reading does not need ({kind}); write a SELECT over the tables")
    if kind == "UnresolvedRelation" and len(names := _names(node.multipartIdentifier())) != 1:
        raise ConfigError(f"the query reads {'.'.join(names)}, and only the tables and names given in the query can be read")
    if kind == "UnresolvedTableValuedFunction" and (name := ".".join(_names(node.name())).lower()) not in ALLOWED_TABLE_FUNCTIONS:
        raise ConfigError(f"the query reads from the function {name}, which is not one of {', '.join(sorted(ALLOWED_TABLE_FUNCTIONS))}")


def _nodes(plan: Any) -> Iterator[Any]:
    """Every node: children, and what Spark calls inner children: WITH clauses and the queries inside expressions."""
    yield plan
    for inner in (*_items(plan.children()), *_items(plan.innerChildren())):
        yield from _nodes(inner)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _names(sequence: Any) -> list[str]:
    return [str(name) for name in _items(sequence)]


def _state(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState()
