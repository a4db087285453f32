"""The manual page says what the code does: its tables of settings and schemes are compared with the models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import yaml
from pydantic import BaseModel

from infra.sections import QuarantineSettings
from ingest.scheme import Handshake, Place, Scheme
from ingest.schemes import SCHEMES
from ingest.settings import AnswerSettings, IngestSettings, RateSettings, SourceSettings, TenantSettings
from ingest.sources import scheme_of
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules

PAGE = ROOT / "ingest" / "README.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "ingest": IngestSettings,
    "tenants.<tenant>": TenantSettings,
    "tenants.<tenant>.rate": RateSettings,
    "tenants.<tenant>.sources.<source>": SourceSettings,
    "tenants.<tenant>.sources.<source>.answer": AnswerSettings,
}


def scheme_rows() -> Iterator[str]:
    return (scheme_row(scheme) for scheme in SCHEMES.values())


def scheme_row(scheme: Scheme) -> str:
    cells = (
        f"`{scheme.name}`",
        _signature(scheme),
        f"`{_signed(scheme)}`" if scheme.algorithm != "token" else "nothing",
        _algorithm(scheme),
        f"{scheme.tolerance_s} s" if scheme.timestamp else "-",
        _places(scheme.delivery_id),
        _places(scheme.event_type),
        "yes" if scheme.confirmed else "no",
    )
    return f"| {' | '.join(cells)} |"


def note_row(scheme: Scheme) -> str:
    return f"| `{scheme.name}` | {scheme.documentation} |"


def _signature(scheme: Scheme) -> str:
    if scheme.name == "generic":
        return "as set"
    items = f", list of `{scheme.items.wanted}{scheme.items.pair}`" if scheme.items else ""
    return f"{scheme.signature}" + (f", `{scheme.prefix}`" if scheme.prefix else "") + items


def _signed(scheme: Scheme) -> str:
    return "".join(part if isinstance(part, str) else f"{{{part.value}}}" for part in scheme.signed)


def _algorithm(scheme: Scheme) -> str:
    if scheme.algorithm == "token":
        return "the secret itself"
    kind = f"HMAC-{scheme.algorithm.upper()}" if scheme.algorithm in ("sha1", "sha256", "sha512") else scheme.algorithm
    return f"{kind}, {scheme.encoding}"


def _places(places: tuple[Place, ...]) -> str:
    return ", else ".join(str(place) for place in places) or "-"


def pasted(rows: list[str], *, beside: list[str]) -> str:
    """What a new scheme's author has to paste: pytest cuts such long lines."""
    return "\n".join(["paste:", *(row for row in rows if row not in beside)])


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows(SECTIONS)


def test_the_settings_that_the_page_shows_describe_schemes() -> None:
    example = yaml.safe_load(PAGE.read_text().split("```yaml\n", 1)[1].split("```", 1)[0])

    for name, source in example["tenants"]["demo"]["sources"].items():
        given = SourceSettings(**source)
        scheme = scheme_of(given, name=name, at=name)
        assert given.public_url or not scheme.is_url_bound
        assert given.secrets or given.fetch_certificates


def test_the_page_has_every_scheme_and_no_other() -> None:
    found, wanted = table_rows(PAGE, heading="Schemes", first="scheme"), list(scheme_rows())

    assert found == wanted, pasted(wanted, beside=found)


def test_the_page_says_about_every_scheme_what_its_record_says() -> None:
    found, wanted = table_rows(PAGE, heading="Schemes", first="about"), [note_row(scheme) for scheme in SCHEMES.values()]

    assert found == wanted, pasted(wanted, beside=found)


def test_the_page_says_which_senders_are_answered_otherwise() -> None:
    other = {status: [f"`{scheme.name}`" for scheme in SCHEMES.values() if scheme.answered == status] for status in (200, 204)}
    *most, last = other[200]

    said = f"{', '.join(most)} and {last} 200, {', '.join(other[204])} 204 and no receipt."
    assert said in " ".join(PAGE.read_text().split())
    assert {scheme.answered for scheme in SCHEMES.values()} == {202, *other}


def test_the_first_page_names_every_scheme_and_which_are_confirmed() -> None:
    confirmed, described = (
        ", ".join(f"`{scheme.name}`" for scheme in SCHEMES.values() if scheme.confirmed == wanted) for wanted in (True, False)
    )

    found = table_rows(ROOT / "README.md", heading="Senders", first="recomputed from vectors that their provider published")

    assert found == [f"| {confirmed} | {described} |"], pasted([f"| {confirmed} | {described} |"], beside=found)


def test_the_page_has_every_setting_of_the_quarantine() -> None:
    assert table_rows(PAGE, heading="Quarantine", first="setting") == setting_rows({"quarantine": QuarantineSettings})


def test_the_page_names_every_module() -> None:
    assert unnamed_modules(PAGE, besides=("__main__.py", "settings.py")) == set()


def test_the_page_has_every_handshake_with_the_schemes_that_have_it() -> None:
    rows = [row.strip("| ").split(" | ")[:2] for row in table_rows(PAGE, heading="Handshakes", first="handshake")]
    schemes = {name: [scheme.name for scheme in SCHEMES.values() if scheme.handshake == name] for name in get_args(Handshake)}

    assert [handshake.strip("`") for handshake, _ in rows] == list(get_args(Handshake))
    for handshake, listed in rows[1:]:
        assert re.findall(r"`(.+?)`", listed) == schemes[handshake.strip("`")]
