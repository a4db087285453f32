"""Owns the check that our package names mean our packages: a user's own `schemas/` must not take the place of ours.

Standard library only: it runs before anything that a foreign package could break.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGES = ("schemas", "infra", "ingest", "processors", "analytics")


def shadowed(root: Path | None = None) -> str | None:
    """One sentence about the first package that resolves elsewhere than under `root` (where we live), or None."""
    root = (root or Path(__file__).parent.parent.parent).resolve()
    for name in PACKAGES:
        found = _directory_of(name)
        if found is not None and found != root / name:
            return (
                f"the package `{name}` is found at {found} and not at {root / name}, so foreign code would run as hooklake's: "
                "rename that folder, or take its parent off PYTHONPATH"
            )
    return None


def append_user_path(directory: Path) -> None:
    """Makes a user's modules importable; at the end of the path, where they cannot hide ours."""
    path = str(directory.resolve())
    if path not in sys.path:
        sys.path.append(path)


def _directory_of(name: str) -> Path | None:
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(name)
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ([spec.origin] if spec.origin else []))
    return Path(places[0]).resolve() if places else None
