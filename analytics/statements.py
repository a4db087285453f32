"""Owns which SQL `hooklake query` runs: what Spark's own parser says is a question about our tables, and nothing else.

Spark SQL can read any file (`parquet.`/path``), run programs (`TRANSFORM`) and static Java methods (`reflect`), change settings and drop
tables. So this is an allow-list in three layers: the kinds of nodes a parsed statement may have, the names it may read from, and the
functions that the session still knows. A statement that keeps a part of itself from being looked at (`hidden.py`) is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession

from analytics.hidden import hides_something
from schemas.errors import ConfigError, TableUnavailable

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
        "reflect", "java_method", "try_reflect", "from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml",
        "schema_of_xml", "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short",
        "xpath_string",
    }
)  # fmt: skip
PLACE = re.compile(r"^\w+;? (\(?line \d+,? pos \d+\)?)")


def harden(spark: SparkSession) -> None:
    """Takes from the session what a question does not need; for sessions that do nothing but answer. Idempotent."""
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


def relations_of(spark: SparkSession, *, sql: str, known: Collection[str]) -> set[str]:
    """Which of the known tables and views a question reads.

    Raises ConfigError for what does not parse, or is more than a question about them. Executes nothing.
    """
    try:
        parsed = _state(spark).sqlParser().parsePlan(sql)
    except ParseException as error:
        raise ConfigError(f"the query cannot be parsed: {first_words(error)}") from error
    read: set[str] = set()
    for node, given in _nodes(parsed):
        refuse_node(kind := _kind(node), node)
        if kind == "UnresolvedRelation":
            read |= {_names(node.multipartIdentifier())[0].lower()} - given
    if hides_something(spark, plan=parsed):
        raise ConfigError(
            "the query has a query inside WINDOW, SET or PARTITION BY, or a column or function named by IDENTIFIER, which cannot be looked "
            "at: put the query into FROM or WITH, and write the name itself"
        )
    if unknown := sorted(read - set(known)):
        raise ConfigError(f"the query reads {unknown[0]}, and there is no such table: there are {', '.join(sorted(known))}")
    return read


def refuse_node(kind: str, node: Any) -> None:
    if kind not in ALLOWED_NODES:
        raise ConfigError(f"the query has a part that only reading does not need ({kind}); write a SELECT over the tables")
    if kind == "UnresolvedRelation":
        refuse_relation(node)
    if kind == "UnresolvedTableValuedFunction" and (name := ".".join(_names(node.name())).lower()) not in ALLOWED_TABLE_FUNCTIONS:
        raise ConfigError(f"the query reads from the function {name}, which is not one of {', '.join(sorted(ALLOWED_TABLE_FUNCTIONS))}")


def refuse_relation(node: Any) -> None:
    if len(names := _names(node.multipartIdentifier())) != 1:
        raise ConfigError(f"the query reads {'.'.join(names)}, and only the tables and names given in the query can be read")
    if node.isStreaming() or not node.options().isEmpty():
        raise ConfigError(f"the query reads {names[0]} as a stream or with options, which a question does not need: name the table only")


def first_words(error: PySparkException | Py4JError) -> str:
    """What Spark says and where, without its plan of the query and the stack of its JVM."""
    if isinstance(error, Py4JError):
        return _first_words_of_java(error)
    said, _, rest = str(error.getMessage() or error).partition("\n\nJVM stacktrace:")[0].partition(" SQLSTATE: ")
    place = PLACE.search(rest)
    return " ".join(f"{said.partition('== SQL')[0]} {place[1] if place else ''}".split())


def _first_words_of_java(error: Py4JError) -> str:
    """Of an exception that pyspark has no class for; without one, of whatever is the matter with the JVM."""
    said = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return str(said).strip().partition("\n")[0][:300]


def _nodes(plan: Any, given: frozenset[str] = frozenset()) -> Iterator[tuple[Any, frozenset[str]]]:
    """Every node, and the names that WITH clauses give where it stands.

    Those are children, and what Spark calls inner children: WITH clauses and the queries inside expressions.
    """
    yield plan, given
    if _kind(plan) == "UnresolvedWith":
        yield from _nodes_of_with(plan, given)
        return
    for inner in (*_items(plan.children()), *_items(plan.innerChildren())):
        yield from _nodes(inner, given)


def _nodes_of_with(node: Any, given: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """A name holds for the relations that follow, and for the query itself; elsewhere it is whatever the catalog has of that name."""
    for relation in _items(node.cteRelations()):
        name = str(relation.productElement(0)).lower()
        yield from _nodes(relation.productElement(1), given | {name} if node.allowRecursion() else given)
        given |= {name}
    yield from _nodes(node.child(), given)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _names(sequence: Any) -> list[str]:
    return [str(name) for name in _items(sequence)]


def _state(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState()


CONDITION_NODES = ["Filter", "Project", "UnresolvedRelation"]
# They are the same for all rows of one query, and others in the next.
CHANGING = frozenset({"CurrentTimestamp", "CurrentTimestampLike", "Now", "CurrentDate", "LocalTimestamp", "CurrentTime", "CurrentUser"})


# The classes of SQLSTATE that sources of data have, and the system beneath them. Such errors come with and without a class of pyspark's.
ABOUT_FILES = re.compile(r"SQLSTATE: (KD|58)")


def refuse_all_but_a_condition(spark: SparkSession, *, condition: str, table: str) -> None:
    """Raises ConfigError for what is more than a condition about a row of the table (a view), or would choose other rows another time."""
    try:
        _state(spark).sqlParser().parseExpression(condition)
        parsed = _state(spark).sqlParser().parsePlan(f"SELECT 1 FROM {table} WHERE true AND ({condition}\n)")
        # A query inside of it would be one more of each.
        if sorted(_kind(node) for node, _ in _nodes(parsed)) != CONDITION_NODES or hides_something(spark, plan=parsed):
            raise ConfigError("the condition is more than a condition about one row: write what would stand after WHERE, without a SELECT")
        found: Any = spark.table(table).where(condition)
        analyzed = found._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise ConfigError(f"the condition cannot be used: {error.getMessage() or error}") from error
    kinds = {kind for node, _ in _nodes(analyzed) for expression in _items(node.expressions()) for kind in _kinds(expression)}
    if not analyzed.deterministic() or kinds & CHANGING:
        raise ConfigError("the condition chooses other rows each time: name times and values, so that the same events are meant again")


@contextmanager
def reading_rows_by(condition: str, *, location: str) -> Iterator[None]:
    """A condition may fail on a value, which shows only when rows are read: what Spark says inside is ConfigError then.

    What it says about the table's files, and whatever it says without a condition, is TableUnavailable.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if condition and not ABOUT_FILES.search(str(error)):
            raise ConfigError(f"the condition cannot be used: {first_words(error)}") from error
        raise TableUnavailable(f"{location} cannot be read: {first_words(error)}") from error


def _kinds(expression: Any) -> Iterator[str]:
    yield _kind(expression)
    for inner in _items(expression.children()):
        yield from _kinds(inner)
