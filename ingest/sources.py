"""Owns the routing table: which source a tenant's route belongs to, with its scheme and its secrets in hand.

Built once at start; every mistake in it is a ConfigError there, so that a request can find nothing half-configured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from infra.settings import Settings, check_name, did_you_mean, read_secret
from ingest.answering import Answering
from ingest.body_schemas import BodySchemas
from ingest.certificates import Certificates
from ingest.generic import GENERIC_ONLY, described_scheme
from ingest.keys import Key, prepare
from ingest.scheme import Scheme
from ingest.schemes import GENERIC, SCHEMES
from ingest.settings import IngestSettings, RateSettings, SourceSettings, TenantSettings
from schemas.errors import ConfigError, UnknownSource
from schemas.event import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A configured sender, ready to verify what it sends."""

    tenant: str
    name: str
    scheme: Scheme
    secrets: Sequence[Key]
    max_body_bytes: int
    priority: Priority
    rate: RateSettings | None = None
    """Of its tenant; shared by all sources of it."""
    encodings: tuple[str, ...] = ()
    splits: bool = False
    """Each element of a body that is a JSON array becomes an event."""
    schemas: BodySchemas | None = None
    answering: Answering = field(default_factory=Answering)
    public_url: str = ""
    """Where the sender posts to, as the sender has it; for schemes that sign the address."""

    @property
    def certificates(self) -> Certificates | None:
        """Where its keys come from, when they are not in the settings."""
        return self.secrets if isinstance(self.secrets, Certificates) else None

    @property
    def is_unsigned(self) -> bool:
        return self.scheme.algorithm == "none"


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources of all tenants."""

    by_route: Mapping[tuple[str, str], Source]

    @classmethod
    def from_settings(cls, settings: Settings) -> Sources:
        """Reads every secret; raises ConfigError, naming the setting, for the first mistake."""
        ingest = settings.section("ingest", IngestSettings)
        table: dict[tuple[str, str], Source] = {}
        for tenant, described in settings.named_sections("tenants", TenantSettings).items():
            for name, source in described.sources.items():
                check_name(name, at=f"tenants.{tenant}.sources")
                built = _build(source, tenant=tenant, name=name, ingest=ingest, settings=settings)
                table[tenant, name] = replace(built, rate=described.rate)
        return cls(table)

    def find(self, tenant: str, *, source: str) -> Source:
        """Raises UnknownSource, alike for a tenant and for a source that does not exist."""
        found = self.by_route.get((tenant, source))
        if found is None:
            raise UnknownSource("there is no such tenant and source; check the path that was configured at the sender")
        return found

    def named(self, tenant: str, *, source: str) -> Source:
        """For the operator, who may be told what does exist; raises ConfigError."""
        tenants = sorted({name for name, _ in self.by_route})
        if tenant not in tenants:
            raise ConfigError(f"tenants.{tenant} does not exist{did_you_mean(tenant, tenants)}; nothing was sent")
        names = sorted(name for owner, name in self.by_route if owner == tenant)
        if source not in names:
            raise ConfigError(f"tenants.{tenant}.sources.{source} does not exist{did_you_mean(source, names)}; nothing was sent")
        return self.by_route[tenant, source]


def _build(given: SourceSettings, *, tenant: str, name: str, ingest: IngestSettings, settings: Settings) -> Source:
    at = f"tenants.{tenant}.sources.{name}"
    scheme = scheme_of(given, name=name, at=at)
    _refuse_everybodys_topics(given, scheme=scheme, at=at)
    schemas = BodySchemas.read(given.schemas, on_mismatch=given.on_mismatch, home=settings.home, files=settings.files, at=f"{at}.schemas")
    return Source(
        tenant=tenant,
        name=name,
        scheme=scheme,
        secrets=_secrets(given, scheme=scheme, settings=settings, at=at),
        max_body_bytes=given.max_body_bytes or scheme.max_body_bytes or ingest.max_body_bytes,
        priority=given.priority,
        encodings=given.encodings,
        splits=scheme.is_batch and given.split is not False,
        schemas=schemas,
        answering=Answering.of(given, scheme=scheme, settings=settings, at=at),
        public_url=_public_url(given, scheme=scheme, at=at),
    )


def _refuse_everybodys_topics(given: SourceSettings, *, scheme: Scheme, at: str) -> None:
    if scheme.secret_form == "certificate" and not given.topics and not given.unsigned:
        raise ConfigError(f"{at}.topics is missing: Amazon signs for all its customers alike, so everybody's topics would be believed")


def _public_url(given: SourceSettings, *, scheme: Scheme, at: str) -> str:
    if scheme.is_url_bound and not given.unsigned and not given.public_url:
        raise ConfigError(
            f"{at}.public_url is missing: scheme {scheme.name} signs the address that it posts to, and this receiver cannot know it"
        )
    if given.public_url and not _is_address(given.public_url):
        raise ConfigError(f"{at}.public_url={given.public_url} is no address: its host or its port is none; nothing would verify")
    return given.public_url or ""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Only a look at the port finds out whether it is one.
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def scheme_of(given: SourceSettings, *, name: str, at: str) -> Scheme:
    """The scheme's record with what the source's settings add to it; raises ConfigError."""
    record = SCHEMES.get(given.scheme)
    if record is None:
        raise ConfigError(
            f"{at}.scheme: there is no scheme {given.scheme!r}{did_you_mean(given.scheme, SCHEMES)}; nothing could be verified"
        )
    if record is GENERIC:
        record = described_scheme(given, at=at)
    else:
        _refuse_generic_settings(given, record=record, at=at)
    is_batch = record.is_batch if given.split is None else record.is_batch or given.split
    splits = is_batch and given.split is not False
    if splits and given.key:
        raise ConfigError(f"{at}.key={given.key}, but the source splits bodies: their parts have no order; set split: false, or no key")
    return replace(
        record,
        namespace=record.namespace or name,
        repository=given.repository or record.repository,
        key="" if splits else given.key or record.key,
        is_batch=is_batch,
        tolerance_s=_tolerance_s(given, scheme=record, at=at),
        algorithm="none" if given.unsigned else record.algorithm,
    )


def _tolerance_s(given: SourceSettings, *, scheme: Scheme, at: str) -> int:
    if given.tolerance_ms is None:
        return scheme.tolerance_s
    if scheme.timestamp is None:
        raise ConfigError(f"{at}.tolerance_ms has no effect: scheme {scheme.name} signs no time")
    return given.tolerance_ms // 1000


def _refuse_generic_settings(given: SourceSettings, *, record: Scheme, at: str) -> None:
    for setting in GENERIC_ONLY:
        if getattr(given, setting) is not None:
            raise ConfigError(f"{at}.{setting} belongs to scheme generic; scheme {record.name} has its own, so this would have no effect")


def _secrets(given: SourceSettings, *, scheme: Scheme, settings: Settings, at: str) -> Sequence[Key]:
    if given.fetch_certificates:
        if scheme.secret_form != "certificate" or given.secrets or given.unsigned:
            raise ConfigError(
                f"{at}.fetch_certificates stands in the place of secrets, for schemes that sign with a certificate: `aws-sns`"
            )
        return Certificates(scheme, at=at, topics=frozenset(given.topics))
    if given.unsigned:
        if given.secrets:
            raise ConfigError(f"{at}.unsigned is set beside secrets, and they would not be looked at: take one of the two out")
        return ()
    if not given.secrets:
        raise ConfigError(
            f"{at}.secrets is empty: nothing this source sends could be verified, so the receiver does not start; "
            "a sender that signs nothing needs `unsigned: true`"
        )
    return tuple(
        _key(reference, scheme=scheme, settings=settings, at=f"{at}.secrets[{number}]") for number, reference in enumerate(given.secrets)
    )


def _key(reference: str, *, scheme: Scheme, settings: Settings, at: str) -> Key:
    secret = read_secret(reference, home=settings.home, files=settings.files, at=at, least_bytes=scheme.least_secret_bytes)
    # Eight is far below what any random secret has, and above `****************` and its like.
    if len(set(secret)) < min(8, scheme.least_secret_bytes):
        raise ConfigError(f"{at}: the secret repeats a few characters, as a placeholder does; such a secret can be guessed")
    return prepare(scheme, secret=secret, at=at)
