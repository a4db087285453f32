"""Owns the sections of the settings file that more than one service reads: `log`, `telemetry`, `dead_letters` and `quarantine`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from infra.log_address import EMBEDDED, why_no_address

CAP_PATTERN = r"^([1-9][0-9]?%|[1-9][0-9]{0,5}[KMG]iB)$"


class Strict(BaseModel):
    """The base of every section: unknown keys are refused, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _size(cap: str) -> tuple[str, int]:
    """What a cap is measured in, and how much; amounts compare in KiB."""
    return ("%", int(cap[:-1])) if cap.endswith("%") else ("KiB", int(cap[:-3]) * 1024 ** "KMG".index(cap[-3]))


class LogSettings(Strict):
    """Where the streams live and what "accepted" means there."""

    url: str = Field(
        "embedded",
        description="`embedded`, or a server's address: `redis://host:6379/0`, `unix:///path`, `rediss://...?ssl_ca_certs=FILE` for TLS, "
        "`redis+sentinel://host:26379,host:26380/NAME` for the primary that sentinels call NAME, "
        "`redis+cluster://host:7000,host:7001/0` for a cluster.",
    )
    shards: int = Field(4, ge=1, le=1024, description="Fixed in the log at first start; another number is refused later.")
    durability: Literal["fsync", "replicated", "relaxed"] = Field(
        "fsync",
        description="`fsync` demands `appendfsync always`; `replicated` also waits until replicas have an event before it is accepted; "
        "`relaxed` accepts a server that may lose the last seconds.",
    )
    replicas: int = Field(1, ge=1, le=16, description="How many of them, where the log is `replicated`.")
    prefix: str = Field("hooklake:", pattern=r"^[a-z0-9][a-z0-9_:-]*$", description="Starts every key of this log.")
    timeout_ms: int = Field(5000, ge=100, description="How long a call may take before the log counts as unavailable.")
    soft_cap: str = Field(
        "60%",
        pattern=CAP_PATTERN,
        description="Above it, events that are archived are taken off the log although a group has not settled them: a share of the "
        "server's `maxmemory` (of half its machine's memory if it has none), or an amount, `2GiB`.",
    )
    hard_cap: str = Field("80%", pattern=CAP_PATTERN, description="Above it nothing more is accepted; a share or an amount, as `soft_cap`.")
    window: str = Field("80h", pattern=r"^[1-9][0-9]*h$", description="How long a delivery id is remembered as seen.")

    @model_validator(mode="after")
    def _caps_are_in_order(self) -> LogSettings:
        soft, hard = (_size(cap) for cap in (self.soft_cap, self.hard_cap))
        if soft[0] == hard[0] and soft[1] >= hard[1]:
            raise ValueError(
                f"soft_cap={self.soft_cap} is not below hard_cap={self.hard_cap}, so nothing would make room before events are refused"
            )
        return self

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if reason := why_no_address(url):
            raise ValueError(reason)
        return url

    @model_validator(mode="after")
    def _has_replicas_if_it_waits_for_them(self) -> LogSettings:
        if self.durability == "replicated" and self.url == EMBEDDED:
            raise ValueError(
                "durability is replicated, and the embedded server has no replicas: set url to a server that has, or durability to fsync"
            )
        return self


class TelemetrySettings(Strict):
    """What a process tells the outside about itself."""

    traces: str = Field(
        "off", pattern=r"^(off|file:.+|https?://.+)$", description="`off`, `file:traces.jsonl` under the home, or an OTLP/HTTP address."
    )
    ops_host: str = Field("127.0.0.1", min_length=1, description="Where the ops ports listen: metrics and health, without authentication.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least level that is logged.")

    @field_validator("traces", mode="before")
    @classmethod
    def _off_is_a_word(cls, traces: object) -> object:
        # YAML reads `off` without quotes as false.
        return "off" if traces is False else traces


class DeadLetterSettings(Strict):
    """What becomes of events that a group gave up on."""

    retention: str = Field(
        "168h",
        pattern=r"^[1-9][0-9]{0,6}h$",
        description="How long a dead letter is kept in the log at least; longer until it is archived.",
    )

    cap: int = Field(
        100_000,
        ge=1,
        description="Open dead letters of one group at which its workers take in no more, until some are requeued or discarded.",
    )

    @property
    def retention_ms(self) -> int:
        return int(self.retention.removesuffix("h")) * 3_600_000


class QuarantineSettings(Strict):
    """How much of what is refused is kept aside, for each source."""

    cap: int = Field(1000, ge=0, description="Open requests of one source that are kept aside; more are counted and dropped. 0 keeps none.")
    cap_bytes: int = Field(64 * 1024 * 1024, ge=0, description="The most bytes of them.")
    per_second: float = Field(
        10.0, gt=0, description="The most that are kept in a second, by each receiver process; a flood of forged requests must cost little."
    )
    burst: int = Field(100, ge=1, description="How many may come at once before that counts.")
    retention: str = Field(
        "168h",
        pattern=r"^[1-9][0-9]{0,6}h$",
        description="How long a refused request is kept in the log at least; longer until it is archived.",
    )

    @property
    def retention_ms(self) -> int:
        return int(self.retention.removesuffix("h")) * 3_600_000
