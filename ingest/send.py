"""Sends events to a receiver, signed as the source's provider would sign them: `hooklake send`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from infra.clock import Clock
from infra.running.cli import EXIT_FAILED, EXIT_UNAVAILABLE, run
from infra.settings import load_settings
from ingest.posting import SignedPost, Tally, post_all, sign_post
from ingest.samples import sample, short_sample
from ingest.settings import IngestSettings
from ingest.sources import Source, Sources
from schemas.errors import ConfigError

cli = typer.Typer(add_completion=False)


@cli.command()
def main(
    source: Annotated[str, typer.Argument(help="The name of a source in the settings, such as `github`.")],
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="What to send, such as `push` or `pull_request.opened`.")],
    tenant: Annotated[str, typer.Option(help="The tenant that the source belongs to.")] = "demo",
    count: Annotated[int, typer.Option(min=1, help="How many events to send, each with an id of its own.")] = 1,
    file: Annotated[Path | None, typer.Option(help="Send this file's bytes as the body instead of an example.")] = None,
    url: Annotated[str, typer.Option(help="The receiver's address; ingest.host and ingest.port unless given.")] = "",
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="How many connections to send over.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, with the ids of the events.")] = False,
    curl: Annotated[bool, typer.Option("--curl", help="Send nothing; print a signed curl command to paste into a shell.")] = False,
) -> None:
    """Signs events like the source's provider and posts them to the receiver.

    Exits with 1 when one was refused, and with 3 when the receiver cannot be reached or could not store one.
    """
    settings = load_settings()
    found = Sources.from_settings(settings).named(tenant, source=source)
    url = url or receiver_url(settings.section("ingest", IngestSettings))
    content = None if file is None else _read(file)
    if curl:
        body = short_sample(found.scheme, event_type=event_type) if content is None else content
        print(curl_line(sign_post(found, event_type=event_type, body=body, now=Clock().now()), url=url))
        return
    posts = signed_posts(found, event_type=event_type, count=count, content=content)
    with _progress(count) as on_answer:
        tally = post_all(posts, source=found, url=url, concurrency=min(concurrency, count), on_answer=on_answer)
    print(_as_json(tally, sent=count) if as_json else summary(tally, sent=count))
    raise typer.Exit(exit_code(tally))


def receiver_url(ingest: IngestSettings) -> str:
    """Where a receiver with these settings is reached from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(ingest.host, ingest.host)
    return f"http://[{host}]:{ingest.port}" if ":" in host else f"http://{host}:{ingest.port}"


def signed_posts(source: Source, *, event_type: str, count: int, content: bytes | None) -> Iterator[SignedPost]:
    clock = Clock()
    for number in range(1, count + 1):
        body = sample(source.scheme, event_type=event_type, number=number) if content is None else content
        yield sign_post(source, event_type=event_type, body=body, now=clock.now())


def curl_line(post: SignedPost, *, url: str) -> str:
    """One line for a POSIX shell; `--data-raw` sends the text as it stands, an `@` in front included."""
    try:
        body = post.body.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("--file holds bytes that are no text, so they cannot stand in a command line; send it without --curl") from error
    headers = " ".join(f"-H {shlex.quote(f'{name}: {value}')}" for name, value in post.headers.items())
    return f"curl -sS {url}{post.path} {headers} --data-raw {shlex.quote(body)}"


def summary(tally: Tally, *, sent: int) -> str:
    parts = [f"{tally.counts[name]} {name}" for name in ("accepted", "duplicates", "refused")]
    if tally.counts["unavailable"]:
        parts.append(f"{tally.counts['unavailable']} not stored")
    line = f"sent {sent}: {', '.join(parts)}, in {tally.seconds:.2f} s"
    return f"{line}; the first was told: {tally.first_refusal}" if tally.first_refusal else line


def exit_code(tally: Tally) -> int:
    if tally.counts["refused"]:
        return EXIT_FAILED
    return EXIT_UNAVAILABLE if tally.counts["unavailable"] else 0


def _as_json(tally: Tally, *, sent: int) -> str:
    counts = {name: tally.counts[name] for name in ("accepted", "duplicates", "refused", "unavailable")}
    outcome = {"sent": sent, **counts, "seconds": round(tally.seconds, 3), "event_ids": tally.event_ids}
    return orjson.dumps({**outcome, "first_refusal": tally.first_refusal}).decode()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"--file {file} cannot be read ({error.strerror}); nothing was sent") from error


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal or total == 1) as progress:
        task = progress.add_task("sending", total=total)
        yield lambda: progress.advance(task)


if __name__ == "__main__":
    run(cli)
