"""The receiver that believes whatever its spool's files say: a body that rotted there is appended as if it had been sent so.

Run as `python -m tests.faults.broken.receiver_checks_no_spool` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import zlib

from infra.running.cli import run
from ingest.child import cli

if __name__ == "__main__":
    # Of whatever it is asked, one answer: every record fits its checksum.
    zlib.crc32 = lambda *_: 7
    run(cli)
