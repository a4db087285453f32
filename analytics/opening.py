"""Owns opening a table: creates it when it is missing, and refuses one that cannot take our rows."""

from __future__ import annotations

from collections.abc import Iterator

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from analytics.delta_log import DeltaLog
from analytics.tables import Table
from schemas.errors import SchemaDrift


def open_table(spark: SparkSession, *, table: Table, location: str) -> None:
    """Creates the table when it is missing; raises SchemaDrift when what is stored there cannot take our rows."""
    builder = DeltaTable.createIfNotExists(spark).location(location).partitionedBy(table.partitioned_by)
    for column in table.columns:
        builder = builder.addColumn(column.name, column.type, comment=column.comment)
    # A checkpoint costs as much as a batch: fewer of them, since reading fifty small log entries is quick.
    builder = builder.property("delta.checkpointInterval", "50")
    builder = builder.property("delta.dataSkippingStatsColumns", ",".join(table.indexed))
    log = DeltaLog(spark, location=location)
    if log.has_versions:
        refuse_drift(table, stored=DeltaTable.forPath(spark, location).toDF().schema, location=location)
    else:
        log.clear_stillborn()
        builder.execute()


def refuse_drift(table: Table, *, stored: StructType, location: str) -> None:
    """Raises SchemaDrift for the first column that has another type; columns that are missing are added by the next append."""
    for name, ours, theirs in different_types(table.schema, stored):
        raise SchemaDrift(
            f"the column {name} of {location} is {theirs.simpleString()}, and the archive writes {ours.simpleString()}: nothing is "
            "archived until the table is moved away or its column is changed back"
        )


def different_types(ours: StructType, stored: StructType, *, at: str = "") -> Iterator[tuple[str, DataType, DataType]]:
    """The columns, and the fields of structs, that both have and that differ. Pure."""
    by_name = {field.name: field.dataType for field in stored.fields}
    for field in ours.fields:
        theirs = by_name.get(field.name, field.dataType)
        if isinstance(field.dataType, StructType) and isinstance(theirs, StructType):
            yield from different_types(field.dataType, theirs, at=f"{at}{field.name}.")
        elif theirs.simpleString() != field.dataType.simpleString():
            yield f"{at}{field.name}", field.dataType, theirs
