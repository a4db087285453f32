"""Owns set-up: from a fresh clone to a virtual environment with locked packages, Java and the Delta jars.

Runs before anything is installed, so it needs the standard library only: `python3 -I infra/running/provision.py`; with
`--for-tests` or `--for-benchmarks` it also installs what nothing but those use.
Doing it again costs milliseconds and needs no network, because a stamp in the environment says what it was made from.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

LEAST_PYTHON = (3, 11)
NEWER_PYTHONS = ("python3.13", "python3.12", "python3.11")
JAVA_PACKAGE = "openjdk-17-jre-headless"
TEST_PROGRAMS = {"redis-tools": "redis-check-rdb", "strace": "strace"}
"""Debian packages that only tests need, with a program of each. Debian keeps the program of its Redis server in
`redis-tools`; the package `redis-server` adds a service, which would start on this machine."""
BENCHMARK_PROGRAMS = {"wrk": "wrk"}
"""The same of benchmarks."""
PROGRAMS = {"--for-tests": ("tests", TEST_PROGRAMS), "--for-benchmarks": ("benchmarks", BENCHMARK_PROGRAMS)}
STAMP = "hooklake-setup.json"


def main() -> None:
    began = time.monotonic()
    root = Path(__file__).resolve().parent.parent.parent
    use_new_enough_python()
    chosen = options()
    with (root / "requirements.lock").open() as lock:
        # Two set-ups at once (`make up` beside `make test`) would install into each other's half-made environment.
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = set_up(root)
        for user, programs in (PROGRAMS[option] for option in chosen):
            install_programs(programs, user=user)
    if changed:
        say(f"set up in {time.monotonic() - began:.0f} s")


def options() -> list[str]:
    parser = argparse.ArgumentParser(prog="provision.py", description="Sets up this clone; does nothing where that is done.")
    for option, (user, programs) in PROGRAMS.items():
        install = f"also install what only {user} need: {', '.join(programs)}"
        parser.add_argument(option, dest="chosen", action="append_const", const=option, default=[], help=install)
    chosen: list[str] = parser.parse_args().chosen
    return chosen


def set_up(root: Path) -> bool:
    """Does what the stamp says is missing; true when there was something to do."""
    venv, wanted = root / ".venv", wanted_stamp(root)
    done = read_stamp(venv)
    if done == wanted:
        return False
    if any(done.get(key) != wanted[key] for key in ("lock", "project", "root", "python")):
        install(root, venv=venv, done=done, wanted=wanted)
    have = {**wanted, "java": have_java(root, venv=venv), "jars": have_jars(root, venv=venv)}
    if have["java"] and have["jars"]:
        make_classes(root, venv=venv)
    write_stamp(venv, have)
    return True


def wanted_stamp(root: Path) -> dict[str, object]:
    """What a finished environment was made from; scripts in it hold absolute paths, so the place counts too."""
    return {
        "lock": digest(root / "requirements.lock"),
        "project": digest(root / "pyproject.toml"),
        "root": str(root),
        "python": sys.version.split()[0],
        "java": True,
        "jars": True,
        "classes": True,
    }


def install(root: Path, *, venv: Path, done: dict[str, object], wanted: dict[str, object]) -> None:
    if (
        not is_usable(venv)
        or done.get("root", wanted["root"]) != wanted["root"]
        or done.get("python", wanted["python"]) != wanted["python"]
    ):
        create(venv)
    if done.get("lock") != wanted["lock"]:
        install_lock(root, venv=venv)
    say("installing hooklake itself")
    # Without an index: everything it needs is in the lock. `compat` puts our folder on the path as an entry of its own;
    # the default would look us up after every other entry, and a user's `schemas/` would win.
    pip(venv, "install", "--no-deps", "--no-build-isolation", "--no-index", "--config-settings", "editable_mode=compat", "-e", str(root))


def create(venv: Path) -> None:
    say(f"creating {venv} with Python {sys.version.split()[0]}")
    shutil.rmtree(venv, ignore_errors=True)
    if not make_venv(venv):
        # Debian ships venv without ensurepip; the package that completes it is named after the version.
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not apt_install(package) or not make_venv(venv):
            sys.exit(
                f"Python's venv module is incomplete here, so nothing can be installed: install the package {package}, then try again."
            )


def make_venv(venv: Path) -> bool:
    made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, check=False)
    return made.returncode == 0 and is_usable(venv)


def is_usable(venv: Path) -> bool:
    """False for an environment that was left half-made, or whose Python went away with an upgrade."""
    python = venv / "bin" / "python"
    if not python.exists():
        return False
    return subprocess.run([str(python), "-c", "import pip"], capture_output=True, check=False).returncode == 0


def install_lock(root: Path, *, venv: Path) -> None:
    lock = (root / "requirements.lock").read_text(encoding="utf-8")
    packages = len(re.findall(r"^[a-zA-Z0-9]", lock, flags=re.MULTILINE))
    say(f"installing {packages} locked packages (about 600 MB, once; Spark is the largest)")
    # Some packages are built here. They must be built by the locked setuptools, not by one that pip fetches unchecked.
    first = venv / "setuptools.lock"
    first.write_text(entry_of("setuptools", lock=lock), encoding="utf-8")
    pip(venv, "install", "--require-hashes", "--no-deps", "-r", str(first))
    pip(venv, "install", "--require-hashes", "--no-build-isolation", "-r", str(root / "requirements.lock"))


def entry_of(package: str, *, lock: str) -> str:
    """The lines of one package in the lock, with its hashes."""
    found = re.search(rf"^{re.escape(package)}==.*?(?=^[a-zA-Z0-9]|\Z)", lock, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"requirements.lock has no {package}, so the packages that need building cannot be built: restore the file.")
    return found.group()


def pip(venv: Path, *arguments: str) -> None:
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    command = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments, *quiet]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("pip failed (its own words are above), so set-up is not complete: mend what it names, then try again.")


def have_java(root: Path, *, venv: Path) -> bool:
    """Installs Java where that is possible; without it everything but the archive runs."""
    if runs(root, venv=venv, module="analytics.java"):
        return True
    if apt_install(JAVA_PACKAGE) and runs(root, venv=venv, module="analytics.java"):
        return True
    say(f"Java 17 or newer is missing, so the archive will not run: install it (Debian: {JAVA_PACKAGE}). Everything else works.")
    return False


def install_programs(programs: dict[str, str], *, user: str) -> None:
    """Without them the tests or benchmarks run all the same, and say what could not be run without."""
    for package, program in programs.items():
        if shutil.which(program) is None and not (apt_install(package) and shutil.which(program)):
            say(f"the Debian package {package} cannot be installed here, so the {user} do without {program}: install it to run them all.")


def have_jars(root: Path, *, venv: Path) -> bool:
    if runs(root, venv=venv, module="analytics.jars", show=True):
        return True
    say("the Delta jars are not complete, so the archive will not run; the next set-up tries again. Everything else works.")
    return False


def make_classes(root: Path, *, venv: Path) -> None:
    """Tried once: without them Spark works, and takes some seconds longer to start."""
    say("letting Spark run once, so that it starts sooner ever after (about half a minute)")
    if not runs(root, venv=venv, module="analytics.exercise"):
        say("Spark left nothing to start sooner with, so it starts as before. Everything works.")


def runs(root: Path, *, venv: Path, module: str, show: bool = False) -> bool:
    command = [str(venv / "bin" / "python"), "-P", "-m", module]
    return subprocess.run(command, cwd=root, capture_output=not show, check=False).returncode == 0


def apt_install(package: str) -> bool:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    say(f"installing the Debian package {package}")
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    for step in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", package]):
        if subprocess.run(step, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            return False
    return True


def use_new_enough_python() -> None:
    """Becomes a newer Python when this one is too old and a newer one is on the path."""
    if sys.version_info >= LEAST_PYTHON:
        return
    for name in NEWER_PYTHONS:
        found = shutil.which(name)
        if found:
            os.execv(found, [found, "-I", __file__, *sys.argv[1:]])
    sys.exit(f"hooklake needs Python 3.11 or newer, and this is {sys.version.split()[0]}: install a newer one, then try again.")


def read_stamp(venv: Path) -> dict[str, object]:
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, stamp: dict[str, object]) -> None:
    half_written = venv / (STAMP + ".new")
    half_written.write_text(json.dumps(stamp), encoding="utf-8")
    half_written.replace(venv / STAMP)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(sentence: str) -> None:
    print(f"set-up: {sentence}", flush=True)


if __name__ == "__main__":
    main()
