"""Owns the scheme that a source's own settings describe: `generic`. Pure; every mistake is a ConfigError at start."""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.scheme import BODY_ONLY, Header, Part, Scheme
from ingest.schemes import GENERIC
from ingest.settings import SourceSettings
from schemas.errors import ConfigError

GENERIC_ONLY = (
    "header", "prefix", "encoding", "algorithm", "signed", "timestamp_header", "timestamp_unit",
    "delivery_id_header", "event_type_header", "body",
)  # fmt: skip
PARTS = {f"{{{part.value}}}": part for part in (Part.BODY, Part.TIMESTAMP, Part.ID, Part.METHOD, Part.URL)}


def described_scheme(given: SourceSettings, *, at: str) -> Scheme:
    """Raises ConfigError where the description has a hole."""
    if given.header is None and not given.unsigned:
        raise ConfigError(f"{at}.header is missing: scheme generic does not know which header carries the signature")
    scheme = replace(
        GENERIC,
        signature=Header((given.header or "").lower()),
        prefix=given.prefix or GENERIC.prefix,
        encoding=given.encoding or GENERIC.encoding,
        algorithm=given.algorithm or GENERIC.algorithm,
        signed=BODY_ONLY if given.signed is None else pattern_parts(given.signed, at=at),
        timestamp=Header(given.timestamp_header.lower()) if given.timestamp_header else None,
        timestamp_unit=given.timestamp_unit or GENERIC.timestamp_unit,
        delivery_id=_headers(given.delivery_id_header),
        event_type=_headers(given.event_type_header),
        demands_json=given.body == "json",
    )
    _refuse_holes(scheme, at=at)
    return scheme


def pattern_parts(pattern: str, *, at: str) -> tuple[Part | str, ...]:
    """What `{timestamp}.{body}` says; raises ConfigError for a name that is none, and where the body is left out."""
    pieces = [piece for piece in re.split(r"(\{[^{}]*\})", pattern) if piece]
    parts = tuple(PARTS.get(piece, piece) for piece in pieces)
    for part in parts:
        if isinstance(part, str) and ("{" in part or "}" in part):
            raise ConfigError(f"{at}.signed has {part!r}, which is none of {', '.join(PARTS)}; nothing would verify")
    if Part.BODY not in parts:
        raise ConfigError(f"{at}.signed has no {{body}}, so whoever sees one request could send any other body")
    return BODY_ONLY if parts == BODY_ONLY else parts


def _refuse_holes(scheme: Scheme, *, at: str) -> None:
    if (Part.TIMESTAMP in scheme.signed) != (scheme.timestamp is not None):
        raise ConfigError(
            f"{at}: `signed` with {{timestamp}} and `timestamp_header` need each other; a time that is not signed proves nothing"
        )
    if scheme.signs_id and not scheme.delivery_id:
        raise ConfigError(f"{at}.delivery_id_header is missing: `signed` has {{id}}, and no header is said to carry it")
    if scheme.algorithm == "token" and scheme.signed is not BODY_ONLY:
        raise ConfigError(f"{at}.signed has no effect with `algorithm: token`, which signs nothing")
    if scheme.algorithm == "token" and isinstance(scheme.signature, Header) and scheme.signature.name in scheme.kept_headers:
        raise ConfigError(
            f"{at}.header={scheme.signature.name} shows the secret itself, and that header would be stored with every event: the sender "
            "has to show it in one that is neither `delivery_id_header` nor `event_type_header`, nor stored anyway"
        )


def _headers(name: str | None) -> tuple[Header, ...]:
    return (Header(name.lower()),) if name else ()
