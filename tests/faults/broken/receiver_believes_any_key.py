"""The receiver that asks no public key: whatever stands where a signature belongs is accepted of the senders that have a private one.

Run as `python -m tests.faults.broken.receiver_believes_any_key` in the place of `python -m ingest`.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.running.cli import run
from ingest.child import cli
from ingest.public_keys import PublicKey


def made(key: PublicKey, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
    return True


if __name__ == "__main__":
    PublicKey.made = made  # type: ignore[assignment, method-assign]
    run(cli)
