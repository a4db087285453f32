"""The receiver that compares no signature: whatever is in the right form is accepted.

Run as `python -m tests.faults.broken.receiver_believes_everybody` in the place of `python -m ingest`.
"""

from __future__ import annotations

import hmac

from infra.running.cli import run
from ingest.child import cli


def equal(one: bytes, other: bytes) -> bool:
    return True


if __name__ == "__main__":
    hmac.compare_digest = equal  # type: ignore[assignment]
    run(cli)
