"""Owns which events an erasure means: a tenant, a source, one event, a condition, or all that fits several of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events go: those that fit everything that is given."""

    tenant: str = ""
    source: str = ""
    event: str = ""
    where: str = ""

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Selection:
        """Raises ConfigError for one that names nothing: it would be everything."""
        found = cls(*(arguments.get(name) or "" for name in ("tenant", "source", "event", "where")))
        if found == cls():
            raise ConfigError("say what to erase: --tenant, --source, --event or --where; nothing was erased")
        return found

    def condition(self) -> Column:
        """On the rows of `events`."""
        asked = {"tenant_id": self.tenant, "source": self.source, "id": self.event}
        parts = [F.col(name) == value for name, value in asked.items() if value]
        parts += [F.expr(self.where)] if self.where else []
        condition = parts[0]
        for part in parts[1:]:
            condition = condition & part
        return condition

    @property
    def is_whole(self) -> bool:
        """Whether a tenant or a source goes with all that it has, and not single events."""
        return not (self.event or self.where)

    def takes_all_of(self, whose: str) -> bool:
        """Whether this `tenant:source` goes with all that it has."""
        tenant, _, source = whose.partition(":")
        return self.is_whole and self.tenant in ("", tenant) and self.source in ("", source)

    @property
    def needs_ids(self) -> bool:
        """Whether only a row can tell if it fits."""
        return bool(self.where)

    def described(self) -> dict[str, str | int]:
        """For the record that is kept for ever: names as they are, a condition only by its digest, since it may quote what is erased."""
        said: dict[str, str | int] = {
            name: value for name, value in (("tenant", self.tenant), ("source", self.source), ("event", self.event)) if value
        }
        return said | ({"where_sha256": hashlib.sha256(self.where.encode()).hexdigest()} if self.where else {})
