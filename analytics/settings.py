"""Owns the section `archive` of the settings file."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, field_validator

from infra.settings import Strict

# What Spark itself takes for a master. Whether a cluster answers there is another question, which time may settle.
MASTER = re.compile(
    r"local|local\[([1-9][0-9]*|\*)(\s*,\s*[1-9][0-9]*)?\]|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]|yarn|(spark|k8s)://\S+"
)


VACUUM_FLOOR_HOURS = 168
# A delivery that is sent again is compared with rows of the window for which it is remembered.
LEAST_RETENTION_HOURS = 168
TABLE_NAMES = ("events", "dead_letters", "outcomes", "quarantine")


class ArchiveSettings(Strict):
    """Where the tables live and how the archive fills them."""

    path: str = Field("lake", min_length=1, description="The tables' directory under the home, or an address such as `s3a://bucket/lake`.")
    master: str = Field("local[*]", min_length=1, description="Where Spark runs: `local[*]` on this machine, or a cluster's address.")
    interval_ms: int = Field(
        1000,
        ge=0,
        description="How long after the last one a batch begins, so that it is worth a commit; after a long one it is a quarter of this.",
    )
    records_interval_ms: int = Field(
        15_000,
        ge=0,
        description="How long dead letters, outcomes and refused requests may wait for their tables; events never wait for them.",
    )
    max_batch_entries: int = Field(100_000, ge=1, description="About how many entries one batch takes; a backlog is drained in several.")
    max_batch_bytes: int = Field(
        256 * 1024 * 1024, ge=1, description="About how many bytes one batch takes; fewer entries than above when they are large."
    )
    driver_memory: str = Field(
        "1g", pattern=r"^[1-9][0-9]*[mg]$", description="The heap of Spark's driver; on one machine it does all the work."
    )
    driver_host: str = Field("", description="The address under which a cluster reaches this machine; empty lets Spark choose one.")
    spark: dict[str, str] = Field(
        {},
        description="Settings for Spark, handed on as they are, such as `spark.hadoop.fs.s3a.endpoint`; `spark.jars` are added.",
    )
    warm_up: bool = Field(
        True,
        description="Whether a Spark for which no event waits takes made-up ones through a batch before it is ready, so that it is warm.",
    )
    gold_interval_ms: int = Field(
        60_000, ge=0, description="How long after a refresh of a gold table the next one is due; 0 makes no gold tables."
    )
    upkeep_interval_ms: int = Field(
        3_600_000, ge=0, description="How often the tables are looked after: small files put together, old ones removed. 0 is never."
    )
    vacuum_after: str = Field(
        "168h",
        pattern=r"^[1-9][0-9]{0,5}h$",
        description="How long files stay that the newest version no longer needs, and with them the older versions; at least 168h.",
    )
    history_versions: int = Field(10_000, ge=10, description="How many versions of a table can be asked for at most; each batch makes one.")
    retention: dict[str, str] = Field(
        {}, description="By table, how long its rows stay, such as `{events: 8760h}`; for ever where nothing is said. Whole days go."
    )
    ops_port: int = Field(9103, ge=0, le=65535, description="Serves /metrics, /healthz and /readyz of the archive.")
    connect: bool = Field(True, description="Whether notebooks and `hooklake query` may ask the archive's Spark, through Spark Connect.")
    connect_port: int = Field(
        15002, ge=0, le=65535, description="Where Spark Connect listens, on 127.0.0.1; 0 takes a free port. `run/connect` has the address."
    )

    @field_validator("retention")
    @classmethod
    def _is_of_tables(cls, retention: dict[str, str]) -> dict[str, str]:
        for table, hours in retention.items():
            if table not in TABLE_NAMES:
                raise ValueError(f"there is no table {table!r}, so nothing would be removed: write one of {', '.join(TABLE_NAMES)}")
            if re.fullmatch(r"[1-9][0-9]{0,6}h", hours) is None or int(hours[:-1]) < LEAST_RETENTION_HOURS:
                raise ValueError(f"{table}: {hours!r} is no time of {LEAST_RETENTION_HOURS}h or more, such as 8760h")
        return retention

    @field_validator("vacuum_after")
    @classmethod
    def _is_long_enough(cls, vacuum_after: str) -> str:
        if int(vacuum_after.removesuffix("h")) < VACUUM_FLOOR_HOURS:
            raise ValueError(
                f"{vacuum_after} is less than {VACUUM_FLOOR_HOURS}h: a query that runs, or a copy that is being made of the tables, could "
                "lose files beneath it; `hooklake erase --now` is the way to remove bytes at once"
            )
        return vacuum_after

    @property
    def vacuum_after_hours(self) -> int:
        return int(self.vacuum_after.removesuffix("h"))

    @field_validator("master")
    @classmethod
    def _spark_understands(cls, master: str) -> str:
        if MASTER.fullmatch(master) is None:
            raise ValueError(
                f"Spark knows no master {master!r}, so the archive could never start: write local[*], local[N], spark://HOST:PORT, "
                "k8s://ADDRESS or yarn"
            )
        return master


def is_address(path: str) -> bool:
    """True for `s3a://...` and the like: storage that we do not sync, and where no lock file works."""
    return "://" in path


def table_location(settings: ArchiveSettings, *, home: Path, table: str) -> str:
    """Where a table is stored; an absolute path on this machine, or an address."""
    root = settings.path.rstrip("/") if is_address(settings.path) else str((home / settings.path).absolute())
    return f"{root}/{table}"
