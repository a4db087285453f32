"""Owns finding a Java that Spark can use. Imports no pyspark; `python -m analytics.java` says what it finds."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from infra.running.cli import run
from infra.settings import environment_value
from schemas.errors import ConfigError

LEAST_MAJOR = 17
# Spark asks for this module on its command line: a Java without it does not even start.
NEEDED_MODULE = "jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is new enough and complete."""

    home: Path
    major: int


def major_version(output: str) -> int | None:
    """What `java -version` says, 8 for `1.8.0_292`; None when it is no such output. Pure."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if found is None:
        return None
    first = int(found[1])
    return int(found[2]) if first == 1 and found[2] else first


def find_java(homes: Iterable[Path] | None = None) -> Java:
    """The first that fits, by default of JAVA_HOME, PATH and the usual directory; raises ConfigError when there is none."""
    for home in candidates() if homes is None else homes:
        if (java := probe(home)) is not None:
            return java
    raise ConfigError(
        f"no Java {LEAST_MAJOR} or later with the module {NEEDED_MODULE} was found, so the archive and `hooklake query` cannot run "
        f"(everything else does): install openjdk-{LEAST_MAJOR}-jre-headless, or set JAVA_HOME to such a Java"
    )


def candidates() -> Iterator[Path]:
    if chosen := environment_value("JAVA_HOME"):
        yield Path(chosen)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)


def probe(home: Path) -> Java | None:
    """Starts this Java with the needed module; None when it cannot."""
    command = [str(home / "bin" / "java"), "--add-modules", NEEDED_MODULE, "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    major = major_version(done.stderr + done.stdout)
    if done.returncode != 0 or major is None or major < LEAST_MAJOR:
        return None
    return Java(home=home, major=major)


app = typer.Typer(add_completion=False)


@app.command()
def main() -> None:
    """Says which Java the archive will use; fails when there is none."""
    java = find_java()
    print(f"Java {java.major} at {java.home}")


if __name__ == "__main__":
    run(app)
