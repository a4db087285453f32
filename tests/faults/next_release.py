"""The worker of a later release, as far as versions go: it reads version 2 of events beside version 1.

Run as `python -m tests.faults.next_release` in the place of `python -m processors`.
"""

from __future__ import annotations

import sys

from infra.running.cli import run
from infra.streams import entries

HERE = "tests.faults.next_release"

if __name__ == "__main__":
    # Before anybody else has looked.
    entries.READABLE_VERSIONS = frozenset({1, 2})
    from processors import __main__ as parent
    from processors import child

    if "--ops-fd" in sys.argv:
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
