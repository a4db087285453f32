"""Owns the sentence for a home that cannot be used as it is: a file where a folder belongs, or no right to read or write."""

from __future__ import annotations

import errno
from pathlib import Path

# What a person has to clear away. A full disk or a lost mount is not among them: it may pass by itself.
OBSTACLES = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG})


def obstacle(error: OSError, *, home: Path) -> str:
    """What stands in the way under the home, or an empty text when the error is about something else. Pure."""
    if error.errno not in OBSTACLES or not isinstance(error.filename, str | bytes | Path):
        return ""
    path = Path(error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename)
    if not path.is_relative_to(home):
        return ""
    return (
        f"HOOKLAKE_HOME: {path} cannot be used ({error.strerror}), so nothing can be kept there: clear it away, or give us the right to it"
    )
