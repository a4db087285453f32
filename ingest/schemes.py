"""Owns the table of schemes: every kind of sender that a source can name, by name.

A new provider is one record in a `providers_*.py` and its vectors in `tests/vectors/<name>.json`; CONTRIBUTING.md shows the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ingest.providers_code import CODE, GITHUB
from ingest.providers_messages import MESSAGES
from ingest.providers_sales import SALES
from ingest.providers_standards import GENERIC, STANDARDS
from ingest.scheme import Scheme

SCHEMES: Mapping[str, Scheme] = MappingProxyType({scheme.name: scheme for scheme in (*CODE, *SALES, *MESSAGES, *STANDARDS)})

__all__ = ["GENERIC", "GITHUB", "SCHEMES", "Scheme"]
