"""Lists the configured sources: `hooklake sources`. Reads settings and secrets as the receiver does, and shows no secret."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from infra.running.cli import run
from infra.running.screen import table_console
from infra.settings import load_settings
from ingest.sources import Source, Sources

cli = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Line:
    """One source, as machines read it."""

    tenant: str
    source: str
    scheme: str
    confirmed: bool
    secrets: int
    key_ids: list[str]
    unsigned: bool
    fetched: bool
    path: str


@cli.command()
def main(as_json: Annotated[bool, typer.Option("--json", help="Print the sources as a JSON list.")] = False) -> None:
    """Lists the sources of all tenants, how each is verified, and with how many secrets; exits with 2 when a setting is wrong."""
    lines = [line_of(source) for source in Sources.from_settings(load_settings()).by_route.values()]
    if as_json:
        print(orjson.dumps([asdict(line) for line in lines], option=orjson.OPT_INDENT_2).decode())
        return
    table_console().print(_table(lines) if lines else "no sources are configured: section `tenants` of the settings names them")


def line_of(source: Source) -> Line:
    return Line(
        tenant=source.tenant,
        source=source.name,
        scheme=source.scheme.name,
        confirmed=source.scheme.confirmed,
        secrets=len(source.secrets),
        key_ids=[secret.key_id for secret in source.secrets],
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
    return Text(f"{line.secrets} {noun}: {', '.join(line.key_ids)}")


if __name__ == "__main__":
    run(cli)
