"""Owns the archive of classes: what Spark and Delta load at each start, parsed once, so that every later JVM only maps it (AppCDS).

It lies beside the Delta jars, with a Spark home of fixed name: Java uses an archive only for the very class path it was made with.
`python -m analytics.exercise` makes it; set-up does. Without one, or with one of another Java, all works, and starts later.
"""

from __future__ import annotations

import hashlib
import os
from importlib import metadata
from pathlib import Path

from analytics.jars import jar_directory, spark_home
from analytics.java import Java

# Said on stdout of the JVM otherwise, for an archive that does not fit: it is then simply not used.
QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def class_archive(java: Java) -> Path:
    """Its name tells which Java and which Spark it is for."""
    release = java.home / "release"
    made_for = f"{java.home}\n{release.read_text() if release.exists() else ''}\n{metadata.version('pyspark')}"
    return jar_directory().parent / f"classes-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"


def class_options(java: Java) -> tuple[str, ...]:
    """What to tell a JVM, so that it uses the archive; nothing when there is none."""
    archive = class_archive(java)
    return (f"-XX:SharedArchiveFile={archive}", *QUIET) if archive.exists() else ()


def unzipped_home(scratch: Path) -> Path:
    """Spark's home without the zip of pyspark that Spark gives to its Python processes, which have pyspark installed.

    Python keeps no compiled code of what it imports from a zip: each of the processes that a start takes would compile it again.
    The one that set-up made, else one in `scratch`.
    """
    return fixed_home() if _is_complete(fixed_home()) else make_home(scratch / "spark")


def fixed_home() -> Path:
    """The one whose name is the same for every home of ours."""
    return jar_directory().parent / "spark"


def make_home(home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        # Made aside and renamed: two commands may start at once.
        fresh = home / f"{name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(spark_home() / name)
        fresh.replace(home / name)
    return home


def _is_complete(home: Path) -> bool:
    return all((home / name).exists() and (home / name).resolve() == (spark_home() / name).resolve() for name in ("bin", "jars"))
