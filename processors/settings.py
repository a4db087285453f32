"""Owns the settings sections `groups`, with what is forwarded, and `dead_letters`."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, NonNegativeInt, field_validator, model_validator

from infra.sections import DeadLetterSettings
from infra.settings import Settings, Strict, check_name
from infra.streams.keys import ARCHIVE_GROUP
from processors.addresses import numeric_address, why_refused
from schemas.errors import ConfigError

TYPE_PATTERN = r"^(\*|[^*\s]+(\.\*)?)$"
HOP_BY_HOP = (
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "expect", "host", "content-length",
)  # fmt: skip
OURS = ("content-type", "accept-encoding", "idempotency-key", "traceparent", "webhook-", "x-hooklake-")
"""Headers that the forwarder writes itself; names that end in `-` stand for all that begin so."""


class ForwardSettings(Strict):
    """An HTTP endpoint that gets a group's events."""

    url: str = Field(description="The endpoint, `https://...` or `http://...`; only its host is ever shown.")
    method: Literal["POST", "PUT", "PATCH"] = Field("POST", description="`POST`, `PUT` or `PATCH`.")
    types: tuple[Annotated[str, Field(pattern=TYPE_PATTERN)], ...] = Field(
        ("*",), min_length=1, description="Patterns of the event types to forward; others are acked."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers to add; a value may be a reference, `file:secrets/name` or `env:NAME`."
    )
    secret: str = Field(
        "", description="A reference to the secret that signs: `whsec_` and base64, or any bytes; without it nothing is signed."
    )
    timeout_ms: int = Field(10_000, ge=100, le=300_000, description="How long the endpoint may take to answer.")
    allow_private: bool = Field(
        False, description="Whether loopback and private addresses may be reached; link-local and metadata addresses never are."
    )

    @field_validator("url")
    @classmethod
    def _is_an_endpoint(cls, url: str) -> str:
        if reason := why_no_endpoint(url):
            raise ValueError(reason)
        return url

    @field_validator("headers")
    @classmethod
    def _may_be_added(cls, headers: dict[str, str]) -> dict[str, str]:
        for name in headers:
            if reason := why_no_header(name):
                raise ValueError(reason)
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("it names one header twice")
        return headers

    @model_validator(mode="after")
    def _may_be_reached(self) -> ForwardSettings:
        """A name is resolved and checked at every connection; an address can be refused here and now."""
        address = numeric_address(urlsplit(self.url).hostname or "")
        if address is not None and (what := why_refused(address, allow_private=self.allow_private)):
            raise ValueError(f"url leads to {address} ({what}), where nothing is forwarded to; allow_private decides about private ones")
        return self


def why_no_endpoint(url: str) -> str:
    """Why nothing can be forwarded to it, or an empty text; never shows it, since it may hold a token. Pure."""
    if not re.fullmatch(r"[!-~]+", url):
        return "it is empty or has characters that no URL has; write other ones percent-encoded, and hosts with `xn--`"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"it is no URL: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "it is no URL that begins with http:// or https:// and names a host"
    if "@" in parts.netloc:
        return "it has credentials in it, which would be sent to every proxy's log; use the header `authorization` with a reference"
    if parts.fragment:
        return "what follows `#` would not be sent"
    return ""


def why_no_header(name: str) -> str:
    """Why a header may not be added, or an empty text. Pure."""
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", name):
        return f"{name!r} is no header name"
    if name.lower() in HOP_BY_HOP:
        return f"{name} belongs to the connection, not to the event"
    if any(name.lower() == ours or (ours.endswith("-") and name.lower().startswith(ours)) for ours in OURS):
        return f"{name} is written by hooklake itself"
    return ""


class GroupSettings(Strict):
    """One consumer group: which processors it runs, and how."""

    module: str = Field("", description="The module with the group's processors, or `module:function`; `work` may name it instead.")
    forward: ForwardSettings | None = Field(None, description="An HTTP endpoint that gets the events, instead of a module.")
    kind: Literal["durable", "ephemeral"] = Field(
        "durable",
        description="`durable` keeps its place, and the events it has not settled, for ever; `ephemeral` goes when nobody reads it.",
    )
    ttl: str = Field(
        "24h",
        pattern=r"^[1-9][0-9]{0,5}[mhd]$",
        description="How long an ephemeral group may be without a worker before it is removed with all it has: `30m`, `24h`, `7d`.",
    )
    children: int = Field(1, ge=1, le=64, description="Processes of one `hooklake work`; start it again, here or elsewhere, for more.")
    batch_size: int = Field(
        256,
        ge=1,
        le=10_000,
        description="How many entries one read asks for at most; fewer while processors are slow. A worker holds up to six reads.",
    )
    concurrency: int = Field(32, ge=1, le=1000, description="How many of them run at once.")
    block_ms: int = Field(1000, ge=10, le=60_000, description="How long a read waits for new entries.")
    lease_ms: int = Field(30_000, ge=100, description="How long a silent worker keeps its deliveries; a living one renews them.")
    grace_ms: int = Field(5000, ge=0, description="How long a processor may run past its timeout before its process is ended and replaced.")
    max_attempts: int = Field(4, ge=1, description="Attempts before an event becomes a dead letter; @processor may say otherwise.")
    retry_delays_ms: tuple[NonNegativeInt, ...] = Field((0, 1000, 2000), description="Waits after the first, second, ... failed attempt.")
    circuit_failures: int = Field(20, ge=0, description="Failures in a row after which a processor is left alone for a while; 0 never.")
    circuit_open_ms: int = Field(5000, ge=1, description="How long at first; twice as long after each probe that fails, up to 16 times.")
    ops_port: int = Field(
        9102,
        ge=0,
        le=65535,
        description="Metrics and health of the group's worker, all children together; 0 takes a free port, which `up` refuses.",
    )

    @property
    def ttl_ms(self) -> int:
        return int(self.ttl[:-1]) * {"m": 60_000, "h": 3_600_000, "d": 86_400_000}[self.ttl[-1]]


def group_settings(settings: Settings, name: str) -> GroupSettings:
    """The group's section, or the defaults for a group that has none; raises ConfigError.

    A group without a section has no port of its own either, and takes a free one: the default belongs to those that `up` runs.
    """
    check_name(name, at="groups")
    if name == ARCHIVE_GROUP:
        raise ConfigError("groups.archive: this name belongs to the archive, whose place in the log a worker would move")
    groups = settings.named_sections("groups", GroupSettings)
    settings.section("dead_letters", DeadLetterSettings)
    return groups.get(name, GroupSettings(ops_port=0))
