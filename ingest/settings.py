"""Owns what the settings file says about the receiver (`ingest`) and about who may send to it (`tenants`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, IPvAnyNetwork, StrictBool, model_validator

from infra.running.serving_limits import ServingLimits
from infra.settings import Strict
from infra.streams.entries import LARGEST_BODY_BYTES
from ingest.scheme import Handshake
from schemas.event import Priority

HEADER_NAME = r"^[A-Za-z0-9-]{1,64}$"
# Dotted member names of the JSON body, as in `repository.full_name`.
POINTER = r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$"

WINDOW = r"^[1-9][0-9]{0,3}h$"

# As the sender writes it: it is signed byte for byte, so nothing about it is put in order.
PUBLIC_URL = r"^https?://[!-\"$->@-~]{1,1000}$"
TOPIC = r"^arn:aws(-cn|-us-gov)?:sns:[a-z]{2}(-[a-z]+)+-[0-9]{1,2}:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$"


class IngestSettings(Strict):
    """Section `ingest`: the receiver itself."""

    host: str = Field("127.0.0.1", min_length=1, description="The address to listen on; `0.0.0.0` for all of this machine.")
    port: int = Field(8080, ge=0, le=65535, description="The port that senders POST to.")
    ops_port: int = Field(9101, ge=0, le=65535, description="The port of `/metrics`, `/healthz` and `/readyz` for operators.")
    receivers: int = Field(1, ge=1, le=64, description="How many processes serve the port.")
    max_body_bytes: int = Field(
        1024 * 1024,
        ge=1,
        le=LARGEST_BODY_BYTES,
        description="The largest body of a source that sets none itself and whose scheme has no own cap.",
    )
    body_timeout_ms: int = Field(15_000, ge=100, description="How long a body may take to arrive before the answer is 408.")
    head_timeout_ms: int = Field(5_000, ge=100, description="How long a request's headers may take before its connection is closed.")
    idle_timeout_ms: int = Field(30_000, ge=1000, description="How long a connection may wait for its next request, or for a reader.")
    max_headers: int = Field(64, ge=8, description="The most headers a request may have before the answer is 431.")
    max_header_bytes: int = Field(16_384, ge=1024, description="The most bytes its headers may have before the answer is 431.")
    max_connections: int = Field(
        10_000, ge=1, description="The most connections at one time, and fewer where the process may not open so many files; above it: 503."
    )
    max_connections_per_address: int | None = Field(
        None, ge=1, description="The most of them from one address that is no trusted proxy; half of all unless set. Above it: 503."
    )
    max_in_flight: int = Field(1000, ge=1, description="The most requests in work at one time, their bodies being here; above it: 503.")
    max_in_flight_bytes: int = Field(
        256 * 1024 * 1024,
        ge=1,
        description="The most bytes of bodies; half of them for those that still arrive, a quarter for those of one address. Above: 503.",
    )
    spool: bool = Field(True, description="Whether events that the log cannot take are kept on disk here, instead of being refused.")
    spool_max_bytes: int = Field(
        1024 * 1024 * 1024, ge=1024 * 1024, description="The most bytes that a receiver's spool may hold; above it the answer is 503."
    )
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Addresses or networks of our own proxies; only their `X-Forwarded-For` is believed, to say who sent a request."
    )
    grace_ms: int = Field(10_000, ge=1000, description="How long a stopping receiver waits for the requests it has accepted.")

    def serving_limits(self) -> ServingLimits:
        return ServingLimits(
            head_timeout_ms=self.head_timeout_ms,
            # The exact cap is the application's; this one bounds what the parser keeps before there is a request.
            max_head_bytes=4 * self.max_header_bytes,
            idle_timeout_ms=self.idle_timeout_ms,
            max_connections=self.max_connections,
            max_connections_per_address=self.max_connections_per_address,
            grace_ms=self.grace_ms,
        )


class AnswerSettings(Strict):
    """A fixed answer."""

    status: int = Field(200, ge=200, le=299, description="Its status.")
    body: str = Field("", max_length=4096, description="Its body.")
    content_type: str = Field("text/plain; charset=utf-8", pattern=r"^[!-~ ]{1,100}$", description="What its body is.")

    @model_validator(mode="after")
    def _nothing_is_nothing(self) -> AnswerSettings:
        if self.status == 204 and self.body:
            raise ValueError("status=204 means that there is no body, and one is set")
        return self


class SourceSettings(Strict):
    """One configured sender. The second half describes a sender of scheme `generic` and is refused with any other."""

    scheme: str = Field(description="How it signs: a name from the schemes table, such as `github` or `generic`.")
    secrets: tuple[str, ...] = Field(
        (), description="References to the active secrets, `file:secrets/name` or `env:NAME`; two while one replaces the other."
    )
    priority: Literal[Priority.URGENT, Priority.DEFAULT, Priority.LOW] = Field(
        Priority.DEFAULT, description="The stream its events go to: `urgent`, `default` or `low`."
    )
    max_body_bytes: int | None = Field(
        None, ge=1, le=LARGEST_BODY_BYTES, description="Its own cap on a body, instead of the scheme's or the receiver's."
    )
    encodings: tuple[Literal["gzip"], ...] = Field(
        (), description="Content encodings that it may use: `[gzip]`; a body in any other is refused with 415."
    )
    unsigned: StrictBool = Field(
        False, description="`true` believes whoever knows the address, without any secret; listings show such a source in red."
    )
    tolerance_ms: int | None = Field(
        None,
        ge=1000,
        le=7 * 24 * 3600 * 1000,
        description="How far a signed time may be from ours, before or after, instead of what the scheme allows.",
    )
    fetch_certificates: bool = Field(
        False, description="`aws-sns`: fetches the certificates that requests name from Amazon, and only from there, instead of `secrets`."
    )
    window: str | None = Field(
        None,
        pattern=WINDOW,
        description="How long its delivery ids are remembered as seen, `24h`, instead of `log.window`, which is also the most.",
    )
    public_url: str | None = Field(
        None,
        pattern=PUBLIC_URL,
        description="The address that its sender posts to, as the sender has it and without a query; for schemes that sign it.",
    )
    repository: str | None = Field(None, pattern=POINTER, description="Where in a JSON body the subject stands: `repository.full_name`.")
    key: str | None = Field(
        None,
        pattern=POINTER,
        description="Where in a JSON body the ordering key stands; a processor with `key=True` runs events of one key in order.",
    )
    split: bool | None = Field(
        None,
        description="Whether each element of a body that is a JSON array becomes an event; true for schemes that send batches, else false.",
    )
    schemas: dict[str, str] = Field(
        default_factory=dict,
        description='JSON Schemas by event type: `{github.push: "file:schemas/push.json"}`; `github.issues.*` and `*` stand for the rest.',
    )
    on_mismatch: Literal["refuse", "flag"] = Field(
        "flag", description="An event that does not fit its schema: `flag` stores it with the flag `schema_mismatch`, `refuse` answers 422."
    )
    answer: AnswerSettings | None = Field(
        None, description="What an accepted event is answered in the place of its receipt, for senders that want something of their own."
    )
    handshake: Handshake | None = Field(None, description="Another handshake than the scheme's, by its name in the table of handshakes.")
    verify_token: str | None = Field(
        None, description="`hub-challenge`: a reference to the token that was entered at the sender, `file:secrets/name` or `env:NAME`."
    )
    topics: tuple[Annotated[str, Field(pattern=TOPIC)], ...] = Field(
        (), description="`aws-sns`: the ARNs of the topics that are believed; required, as Amazon signs for all its customers."
    )
    confirm_subscriptions: bool = Field(False, description="`aws-sns`: confirm subscriptions to these topics by a call to Amazon.")

    header: str | None = Field(None, pattern=HEADER_NAME, description="`generic`: the header that carries the signature.")
    prefix: str | None = Field(None, pattern=r"^[ -~]{0,32}$", description="`generic`: what stands before the signature, as in `sha256=`.")
    encoding: Literal["hex", "base64"] | None = Field(None, description="`generic`: how the signature is written; `hex` unless set.")
    algorithm: Literal["sha256", "sha512", "sha1", "token"] | None = Field(
        None, description="`generic`: the hash of the HMAC, or `token` where the secret itself is sent; `sha256` unless set."
    )
    signed: str | None = Field(
        None, max_length=200, description="`generic`: what is signed, such as `{timestamp}.{body}`; `{body}` unless set."
    )
    timestamp_header: str | None = Field(None, pattern=HEADER_NAME, description="`generic`: the header with the time that is signed.")
    timestamp_unit: Literal["s", "ms", "iso"] | None = Field(
        None, description="`generic`: how that time is written: Unix seconds, milliseconds or ISO 8601; `s` unless set."
    )
    delivery_id_header: str | None = Field(
        None, pattern=HEADER_NAME, description="`generic`: the header that names a delivery; without it duplicates are not recognised."
    )
    event_type_header: str | None = Field(None, pattern=HEADER_NAME, description="`generic`: the header that names the type of the event.")
    body: Literal["any", "json"] | None = Field(None, description="`generic`: `json` refuses every other body; `any` unless set.")


class RateSettings(Strict):
    """How fast a tenant may send to one receiver process."""

    per_second: float = Field(
        gt=0, description="Requests per second, over all its sources; what is more goes to the stream `overflow`, which workers read last."
    )
    burst: int = Field(100, ge=1, description="How many may come at once before that counts.")
    hard_per_second: float | None = Field(None, gt=0, description="Above it the answer is 429; without it nothing is refused for its rate.")

    @model_validator(mode="after")
    def _rates_are_in_order(self) -> RateSettings:
        if self.hard_per_second is not None and self.hard_per_second < self.per_second:
            said = f"hard_per_second={self.hard_per_second:g} is below per_second={self.per_second:g}"
            raise ValueError(f"{said}, so what is within the rate would be refused")
        return self


class TenantSettings(Strict):
    """One entry of section `tenants`."""

    rate: RateSettings | None = Field(None, description="How fast it may send, to each receiver process; unbounded unless set.")
    sources: dict[str, SourceSettings] = Field(default_factory=dict, description="The tenant's senders, by name.")
