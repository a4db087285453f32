"""Owns every error hooklake raises; the first level answers "who must act?".

HooklakeError
├── ConfigError             the operator, at start or reload; exit code 2
├── Refused                 the sender; a 4xx
│   ├── MalformedRequest    400
│   ├── BadSignature        401
│   ├── StaleTimestamp      401
│   ├── UnknownSource       404 (an unknown tenant answers the same)
│   ├── MethodNotAllowed    405
│   ├── TooSlow             408
│   ├── BodyTooLarge        413
│   ├── UnsupportedEncoding 415
│   ├── SchemaMismatch      422
│   ├── OverRate            429, with Retry-After
│   └── HeadersTooLarge     431
├── Unavailable             time; 503 + Retry-After, or a retry; exit code 3
│   ├── StreamUnavailable   the log does not answer, or refuses to write
│   │   └── LogFull         the log is above its hard cap
│   ├── SpoolFull           the log does not take it, and the receiver's spool has no room left
│   ├── SpoolUnavailable    the log does not take it, and the spool's disk fails
│   ├── Overloaded          too many requests are in flight here
│   └── TableUnavailable    a Delta table cannot be read or written just now
├── NotFound                the operator; a name that fits nothing; exit code 1
├── GroupInUse              the operator; a group that somebody reads is not removed; exit code 1
├── QueryCancelled          the operator; a question took longer than it may; exit code 1
├── RequestFailed           the operator; the archive could not do what it was asked to; exit code 1
├── MalformedEntry          nobody: bytes on the stream are no StreamEvent; a dead letter at the first look, bytes kept
│   └── UnknownVersion      a release that reads it: it is an event of another version, and is parked
├── LeaseLost               nobody: another consumer owns the delivery; drop the result
└── ArchiveError            the operator; the archive stops and does not move its group
    ├── SchemaDrift         the table has not the columns we write
    ├── WriteSkipped        Delta ignored the commit
    ├── TornTable           files of a commit are damaged, and the log has its events no longer
    └── NotTheArchive       another archive owns the table
"""

from __future__ import annotations

from typing import ClassVar


class HooklakeError(Exception):
    """The root of the tree; `code` is the stable name that machines read."""

    code: ClassVar[str] = "error"
    trace_id: str = ""
    """The trace in which it was raised, where whoever raised it has one."""


class ConfigError(HooklakeError):
    """A setting is wrong; the message names the setting and the consequence."""

    code = "config"


class Refused(HooklakeError):
    """The sender made a mistake; repeating the same request will not help."""

    code = "refused"


class MalformedRequest(Refused):
    """The request is not one that the source's scheme describes."""

    code = "malformed_request"


class BadSignature(Refused):
    """No active secret of the source made this signature."""

    code = "bad_signature"


class StaleTimestamp(Refused):
    """The signed timestamp is outside the scheme's tolerance."""

    code = "bad_signature"  # A known source answers alike for every signature fault: no oracle.


class UnknownSource(Refused):
    """No such tenant, or the tenant has no such source."""

    code = "unknown_source"


class MethodNotAllowed(Refused):
    """The path exists, the method does not."""

    code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str = "POST") -> None:
        super().__init__(message)
        self.allow = allow


class TooSlow(Refused):
    """The body did not arrive in time."""

    code = "too_slow"


class BodyTooLarge(Refused):
    """The body is above the cap of the receiver or of the source."""

    code = "body_too_large"


class UnsupportedEncoding(Refused):
    """The body is compressed in a way that its source is not set up for."""

    code = "unsupported_encoding"


class SchemaMismatch(Refused):
    """The body does not fit the JSON Schema that the source's settings give to its event type."""

    code = "schema_mismatch"


class HeadersTooLarge(Refused):
    """There are more, or longer, headers than the receiver reads."""

    code = "headers_too_large"


class OverRate(Refused):
    """The tenant sends faster than it may; the same request will do later."""

    code = "over_rate"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(HooklakeError):
    """It will work later: nothing is wrong with the request."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StreamUnavailable(Unavailable):
    """The log does not answer, or refuses to write."""

    code = "stream_unavailable"


class LogFull(StreamUnavailable):
    """The log is above its hard cap and takes nothing more."""

    code = "log_full"


class SpoolFull(Unavailable):
    """The log does not take the event, and the receiver's spool has no room left."""

    code = "spool_full"


class SpoolUnavailable(Unavailable):
    """The log does not take the event, and the spool's disk fails."""

    code = "spool_unavailable"


class Overloaded(Unavailable):
    """Too many requests are in flight in this process."""

    code = "overloaded"


class TableUnavailable(Unavailable):
    """A Delta table cannot be read or written just now."""

    code = "table_unavailable"


class NotFound(HooklakeError):
    """An operator named a thing that does not exist."""

    code = "not_found"


class GroupInUse(HooklakeError):
    """A group cannot be removed while its workers run."""

    code = "group_in_use"


class QueryCancelled(HooklakeError):
    """A question took longer than it may, and was cancelled."""

    code = "query_cancelled"


class RequestFailed(HooklakeError):
    """The archive was asked for something and cannot do it; waiting will not help."""

    code = "request_failed"


class MalformedEntry(HooklakeError):
    """An entry's fields are no StreamEvent; `fields` keeps what was found."""

    code = "malformed_entry"

    def __init__(self, message: str, *, fields: dict[bytes, bytes]) -> None:
        super().__init__(message)
        self.fields = fields


class UnknownVersion(MalformedEntry):
    """The entry is an event in a version that this release does not read; another release does."""

    code = "unknown_version"


class LeaseLost(HooklakeError):
    """Another consumer, or a later delivery to this one, owns the entry."""

    code = "lease_lost"


class ArchiveError(HooklakeError):
    """The archive must stop without moving its group."""

    code = "archive"


class SchemaDrift(ArchiveError):
    """The table has not the columns we write."""

    code = "schema_drift"


class WriteSkipped(ArchiveError):
    """Delta reported success and committed nothing of ours."""

    code = "write_skipped"


class TornTable(ArchiveError):
    """Files of a commit are damaged, and the log has its events no longer."""

    code = "torn_table"


class NotTheArchive(ArchiveError):
    """Another archive owns the table."""

    code = "not_the_archive"
