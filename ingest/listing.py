"""Lists the configured sources: `hooklake sources`. Reads settings and secrets as the receiver does, and shows no secret.

When each secret was used last stands in the log; without one that answers, the list is complete but for that.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infra.running.cli import run
from infra.running.screen import table_console
from infra.settings import Settings, load_settings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import Keys
from infra.streams.ledger import read_last_used
from ingest.sources import Source, Sources
from ingest.windows import windows_of
from schemas.errors import StreamUnavailable
from schemas.event import from_epoch_ms

cli = typer.Typer(add_completion=False)
Used = dict[tuple[str, str, str], int]
"""When keys were used last, in ms, by tenant, source and key id."""


@dataclass(frozen=True, slots=True)
class Line:
    """One source, as machines read it."""

    tenant: str
    source: str
    scheme: str
    confirmed: bool
    secrets: int
    key_ids: list[str]
    last_used: dict[str, str | None]
    """By key id, when it last verified a request, to the minute; None for one that never did."""
    unsigned: bool
    fetched: bool
    path: str


@cli.command()
def main(as_json: Annotated[bool, typer.Option("--json", help="Print the sources as a JSON list.")] = False) -> None:
    """Lists the sources of all tenants, how each is verified, and with how many secrets; exits with 2 when a setting is wrong."""
    settings = load_settings()
    sources = Sources.from_settings(settings).by_route.values()
    windows_of(settings)  # Of no use here; a window that stops the receiver stops the listing of its sources, too.
    used = last_used(settings)
    lines = [line_of(source, used=used or {}) for source in sources]
    if as_json:
        print(orjson.dumps([asdict(line) for line in lines], option=orjson.OPT_INDENT_2).decode())
        return
    table_console().print(_table(lines) if lines else "no sources are configured: section `tenants` of the settings names them")
    if used is None:
        Console(stderr=True).print("The log does not answer, so nobody knows when secrets were used last.", highlight=False)


def last_used(settings: Settings) -> Used | None:
    """None when the log cannot be asked."""
    try:
        client = open_blocking(settings.log, home=settings.home)
        try:
            with translated():
                return read_last_used(client, keys=Keys(settings.log.prefix, settings.log.shards))
        finally:
            client.close()
    except StreamUnavailable:
        return None


def line_of(source: Source, *, used: Used) -> Line:
    at = {secret.key_id: used.get((source.tenant, source.name, secret.key_id)) for secret in source.secrets}
    return Line(
        tenant=source.tenant,
        source=source.name,
        scheme=source.scheme.name,
        confirmed=source.scheme.confirmed,
        secrets=len(source.secrets),
        key_ids=list(at),
        last_used={key_id: None if ms is None else from_epoch_ms(ms).isoformat(timespec="seconds") for key_id, ms in at.items()},
        unsigned=source.is_unsigned,
        fetched=source.certificates is not None,
        path=f"/hooks/{source.tenant}/{source.name}",
    )


def _table(lines: list[Line]) -> Table:
    table = Table("tenant", "source", "scheme", "verified with", "path")
    for line in lines:
        table.add_row(line.tenant, line.source, _scheme(line), _secrets(line), line.path)
    return table


def _scheme(line: Line) -> Text:
    return Text(line.scheme) if line.confirmed else Text(f"{line.scheme} (no published vector)")


def _secrets(line: Line) -> Text:
    if line.unsigned:
        return Text("unsigned: anybody may send", style="bold red")
    if line.fetched:
        return Text("certificates that are fetched from Amazon")
    noun = "secret" if line.secrets == 1 else "secrets"
    return Text(f"{line.secrets} {noun}: {', '.join(map(_use, line.last_used.items()))}")


def _use(key: tuple[str, str | None]) -> str:
    key_id, at = key
    return f"{key_id} (used {at[:16].replace('T', ' ')} UTC)" if at else f"{key_id} (not used yet)"


if __name__ == "__main__":
    run(cli)
