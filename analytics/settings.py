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


class ArchiveSettings(Strict):
    """Where the tables live and how the archive fills them."""

    path: str = Field("lake", min_length=1, description="The tables' directory under the home, or an address such as `s3a://bucket/lake`.")
    master: str = Field("local[*]", min_length=1, description="Where Spark runs: `local[*]` on this machine, or a cluster's address.")
    interval_ms: int = Field(1000, ge=0, description="How long the archive rests after a batch, so that the next one is worth a commit.")
    max_batch_entries: int = Field(50_000, ge=1, description="About how many entries one batch takes; a backlog is drained in several.")
    max_batch_bytes: int = Field(
        64 * 1024 * 1024, ge=1, description="About how many bytes one batch takes; fewer entries than above when they are large."
    )
    driver_memory: str = Field(
        "1g", pattern=r"^[1-9][0-9]*[mg]$", description="The heap of Spark's driver; on one machine it does all the work."
    )
    ops_port: int = Field(9103, ge=0, le=65535, description="Serves /metrics, /healthz and /readyz of the archive.")

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
