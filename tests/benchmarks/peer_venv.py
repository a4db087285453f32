"""Owns the venv of the peers: made once per lock, from hashed packages, apart from ours."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.rates import CannotMeasure

LOCK = Path(__file__).parent / "peers.lock"


def peers_python(home: Path) -> Path:
    """The peers' interpreter, installed first when it is missing or the lock has changed; raises CannotMeasure."""
    venv = home / "bench-venv"
    python, stamp = venv / "bin" / "python", venv / "lock.sha256"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not (stamp.is_file() and stamp.read_text() == digest):
        _run([sys.executable, "-m", "venv", "--clear", str(venv)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(LOCK)])
        # Last of all: an installation that was cut short begins again.
        stamp.write_text(digest)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotMeasure(f"the peers could not be installed ({' '.join(command)}): {done.stderr.strip()[-2000:]}")
