"""Owns the Delta jars: fetched once, checked against pinned digests, used offline ever after.

`python -m analytics.jars` is idempotent, and quick when the jars are there. Spark's own resolver fetches them, so a
mirror that is configured for Spark is used here too.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path

import typer

from analytics.java import Java, find_java
from infra.running.cli import run
from infra.settings import environment_with
from schemas.errors import Unavailable

COORDINATE = "io.delta:delta-spark_4.2_2.13:4.4.0"
# Everything else that Delta depends on is among Spark's own jars: not fetching it saves 75 MB.
NOT_FETCHED = ("com.*:*", "org.*:*", "javax.*:*", "commons-*:*", "io.airlift:*", "io.unitycatalog:*")
SHA256 = {
    "io.delta_delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "io.delta_delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "io.delta_delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "io.delta_delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "io.delta_delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
}
FETCH_TIMEOUT_S = 300


def jar_directory() -> Path:
    """Inside the virtual environment: as old and as new as the packages that need them."""
    return Path(sys.prefix) / "share" / "hooklake" / "jars"


def damaged_jars(directory: Path) -> list[str]:
    """The names of those that are missing or not what was pinned."""
    return [name for name, digest in SHA256.items() if not has_digest(directory / name, digest=digest)]


def has_digest(path: Path, *, digest: str) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def install_jars(directory: Path) -> list[Path]:
    """The five jars, fetched first when one is missing or damaged; raises Unavailable when that fails."""
    if damaged_jars(directory):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # Beside their place, so that each is there whole or not at all.
            with tempfile.TemporaryDirectory(dir=directory.parent) as fetched:
                fetch(Path(fetched), java=find_java())
                accept(Path(fetched) / "jars", directory=directory)
        except OSError as error:
            raise Unavailable(f"the Delta jars cannot be stored in {directory} ({error.strerror}), so the archive cannot start") from error
    return [directory / name for name in SHA256]


def fetch(into: Path, *, java: Java) -> None:
    script = into / "nothing.py"
    script.touch()
    command = [
        str(spark_home() / "bin" / "spark-submit"), "--master", "local[1]", "--conf", f"spark.jars.ivy={into}",
        "--packages", COORDINATE, "--exclude-packages", ",".join(NOT_FETCHED), str(script),
    ]  # fmt: skip
    environment = environment_with({"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable})
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the Delta jars did not arrive within {FETCH_TIMEOUT_S} s, so the archive cannot start; try again") from error
    if done.returncode != 0:
        raise Unavailable(
            f"the Delta jars ({COORDINATE}) could not be fetched, so the archive cannot start: check the network, then run "
            "`python -m analytics.jars` again"
        )


def accept(fetched: Path, *, directory: Path) -> None:
    if wrong := damaged_jars(fetched):
        raise Unavailable(f"{wrong[0]} was fetched and is not what was pinned, so it is not installed; look at who answers instead")
    for name in SHA256:
        os.replace(fetched / name, directory / name)


def spark_home() -> Path:
    """Where pyspark's own Spark is, without importing pyspark; a SPARK_HOME in the environment is another version."""
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unavailable("pyspark is not installed, so the archive cannot start; run `make setup`")
    return Path(spec.origin).parent


app = typer.Typer(add_completion=False)


@app.command()
def main() -> None:
    """Fetches the Delta jars when they are not there yet; the archive then starts offline."""
    directory = jar_directory()
    jars = install_jars(directory)
    print(f"{len(jars)} Delta jars in {directory}")


if __name__ == "__main__":
    run(app)
