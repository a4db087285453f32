"""Owns `hooklake doctor`: looks at everything an installation needs and says what to do about each fault."""

from __future__ import annotations

import json
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from infra.log_address import EMBEDDED
from infra.running.announce import is_unsigned, sources_of
from infra.running.cli import run
from infra.running.healthcheck import is_fine
from infra.running.services import (
    CONNECT_FILE,
    CONNECT_SETTING,
    ArchivePorts,
    Service,
    connect_port,
    refuse_shared_ports,
    services_of,
)
from infra.running.status import at_letter_cap
from infra.sections import DeadLetterSettings
from infra.settings import Settings, environment_with, home_directory, load_settings, read_secret
from infra.spools import DAMAGED, SPOOL, SpoolState, read_spools
from infra.streams.caps import Weight, described
from infra.streams.connection import open_blocking, translated
from infra.streams.overview import read_overview
from infra.streams.probe import look, why_alone, why_outdated, why_unfit
from schemas.errors import ConfigError, StreamUnavailable

GIB = 1024**3
LEAST_FREE_BYTES = 1 * GIB
ENOUGH_FREE_BYTES = 5 * GIB
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
# Run in a process of its own: `infra` never imports a service.
JARS_CHECK = "import sys; from analytics.jars import damaged_jars, jar_directory; sys.exit(', '.join(damaged_jars(jar_directory())) or 0)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    advice: str = ""


app = typer.Typer(add_completion=False)


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as a JSON list.")] = False) -> None:
    """Checks this installation and says what to do about each fault; exits with 1 when something does not work."""
    findings = list(examine(home_directory()))
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        show(findings)
    sys.exit(1 if any(finding.state == "fail" for finding in findings) else 0)


def examine(home: Path) -> Iterator[Finding]:
    """Every finding, most basic first; without settings there is nothing else to look at."""
    try:
        settings = load_settings(home)
        refuse_shared_ports(settings)
        durability = settings.log.durability
    except ConfigError as error:
        yield Finding("settings", "fail", str(error), "mend that setting; `hooklake init` writes a file where there is none")
        return
    yield Finding("settings", "ok", f"{home / 'hooklake.yaml'} loads")
    if durability == "relaxed":
        yield Finding("durability", "warn", "log.durability is relaxed: a crash may lose the last seconds", "set it to fsync")
    checks: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
        examine_home, examine_secrets, examine_log, examine_spools, examine_ports, examine_java, examine_disk,
    )  # fmt: skip
    for check in checks:
        yield from check(settings)


def examine_home(settings: Settings) -> Iterator[Finding]:
    mode = stat.S_IMODE(settings.home.stat().st_mode)
    if mode & 0o077:
        yield Finding("home", "warn", f"{settings.home} has mode {mode:04o}: others can read what is stored", f"chmod 700 {settings.home}")
    else:
        yield Finding("home", "ok", f"only its owner can read {settings.home}")


def examine_secrets(settings: Settings) -> Iterator[Finding]:
    for tenant, source in sources_of(settings):
        route = f"tenants.{tenant}.sources.{source}"
        if is_unsigned(settings, tenant=tenant, source=source):
            yield Finding("secrets", "warn", f"{route} is unsigned: whoever knows its address can send", "give it a secret")
            continue
        section = settings.file.tenants[tenant]["sources"][source]
        references = section.get("secrets") if isinstance(section, dict) else None
        try:
            for number, reference in enumerate(references or ()):
                read_secret(str(reference), home=settings.home, files=settings.files, at=f"{route}.secrets.{number}")
        except ConfigError as error:
            yield Finding("secrets", "fail", str(error), "write the secret that the sender uses, or take the source out")
        else:
            yield Finding("secrets", "ok", f"{route}.secrets: {len(references or ())} usable")


def examine_log(settings: Settings) -> Iterator[Finding]:
    try:
        with open_blocking(settings.log, home=settings.home) as client, translated():
            facts = look(client, log=settings.log)
    except StreamUnavailable as error:
        is_ours = settings.log.url == EMBEDDED
        advice = "start it with `hooklake up`" if is_ours else "start that server, or correct log.url"
        yield Finding("log", "warn" if is_ours else "fail", str(error), advice)
        return
    if reason := why_unfit(facts, log=settings.log):
        yield Finding("log", "fail", reason, "change the server's configuration as it says")
    elif not facts.append_fsync:
        yield Finding("log", "warn", f"{facts.name} {facts.version} does not tell its appendfsync", "make sure that it is `always`")
    else:
        yield Finding("log", "ok", f"{facts.name} {facts.version}, appendfsync {facts.append_fsync}, {facts.eviction}")
    if reason := why_alone(facts, log=settings.log):
        yield Finding("replicas", "fail", reason, "events wait in the spool until then, or are refused where there is none")
    yield from examine_contents(settings)
    if reason := why_outdated(facts):
        yield Finding("log version", "warn", reason, "let nobody but hooklake reach the server until then")


def examine_contents(settings: Settings) -> Iterator[Finding]:
    """What the log holds: whether there is room for more, and for more dead letters."""
    try:
        overview = read_overview(settings.log, home=settings.home)
    except StreamUnavailable as error:
        yield Finding("memory", "warn", str(error), "look again when the log answers")
        return
    if overview.weight is not None:
        yield examine_memory(overview.weight)
    for sentence in at_letter_cap(overview, cap=settings.section("dead_letters", DeadLetterSettings).cap):
        yield Finding("dead letters", "fail", sentence, "`hooklake dead-letters list` shows them")


def examine_memory(weight: Weight) -> Finding:
    if weight.is_full:
        return Finding("memory", "fail", f"events are refused: {described(weight)}", "run the archive and the workers, or add memory")
    if weight.is_heavy:
        return Finding("memory", "warn", described(weight), "run the archive and the workers that are behind, or add memory")
    return Finding("memory", "ok", described(weight))


def examine_spools(settings: Settings) -> Iterator[Finding]:
    """What receivers keep because the log did not take it."""
    spools = read_spools(settings.home)
    for spool in spools:
        if spool.damaged:
            where = settings.home / SPOOL / spool.receiver / DAMAGED
            yield Finding(
                "spool",
                "fail",
                f"{spool.damaged} places in the spool of {spool.receiver} were damaged; their bytes are in {where}",
                "the receiver's log has file and offset; ask the senders for what came then, and remove those files",
            )
        if spool.events:
            yield examine_waiting(spool)
    if not any(spool.events or spool.damaged for spool in spools):
        yield Finding("spool", "ok", "nothing waits for the log")


def examine_waiting(spool: SpoolState) -> Finding:
    detail = f"{spool.events} events ({spool.size_bytes} bytes) wait in the spool of {spool.receiver}"
    if spool.is_held:
        return Finding(
            "spool", "warn", f"{detail}: its receiver runs, and the log does not take them all yet", "see what is said of the log"
        )
    return Finding("spool", "fail", f"{detail}, and no receiver runs that would append them", "start one: `hooklake up`")


def examine_ports(settings: Settings) -> Iterator[Finding]:
    for service in services_of(settings):
        yield examine_port(service)
    yield examine_connect(settings)


def examine_port(service: Service) -> Finding:
    """A port is fine when our process answers on it, and when nobody does."""
    if service.ops_port == 0:
        return Finding(service.name, "warn", f"{service.ops_setting} is 0, so it cannot be asked", "set a port")
    if is_fine(service):
        return Finding(service.name, "ok", f"ready on ops port {service.ops_port}")
    if is_fine(service, path="/healthz"):
        return Finding(service.name, "warn", f"runs on ops port {service.ops_port}, but is not ready", f"see logs/{service.name}.log")
    if is_free(service.ops_port, host=service.ops_host):
        return Finding(service.name, "ok", f"not running; {service.ops_setting}={service.ops_port} is free")
    return Finding(
        service.name, "fail", f"{service.ops_setting}={service.ops_port} is taken by another program", "stop it, or set another port"
    )


def examine_connect(settings: Settings) -> Finding:
    """Where the archive's Spark can be asked; an archive that was killed has left an address where nobody answers."""
    if not settings.section("archive", ArchivePorts).connect:
        return Finding("connect", "ok", "archive.connect is false: `hooklake query` starts a Spark of its own")
    port, file = connect_port(settings), settings.home / CONNECT_FILE
    told = re.search(r":([0-9]+)/", file.read_text()) if file.exists() else None
    if told is not None and not is_free(int(told[1]), host="127.0.0.1"):
        return Finding("connect", "ok", f"Spark Connect listens on 127.0.0.1:{told[1]}; its token is in {file}")
    if port == 0 or is_free(port, host="127.0.0.1"):
        return Finding("connect", "ok", f"Spark Connect does not run; {CONNECT_SETTING}={port} is free")
    return Finding("connect", "fail", f"{CONNECT_SETTING}={port} is taken by another program", "stop it, or set another port")


def is_free(port: int, *, host: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def examine_java(settings: Settings) -> Iterator[Finding]:
    """Neither stops more than the archive and `query`, so neither is a failure of the whole."""
    java = _python("-m", "analytics.java", home=settings.home)
    if java.returncode != 0:
        yield Finding("java", "warn", _words(java.stderr) or "Java cannot be checked", "install it, then start again")
        return
    yield Finding("java", "ok", _words(java.stdout))
    jars = _python("-c", JARS_CHECK, home=settings.home)
    if jars.returncode == 0:
        yield Finding("jars", "ok", "all Delta jars are there and are what was pinned")
    else:
        yield Finding("jars", "warn", f"Delta jars are missing or damaged: {_words(jars.stderr)}", "run `make setup` with a network")


def examine_disk(settings: Settings) -> Iterator[Finding]:
    free_bytes = shutil.disk_usage(settings.home).free
    detail = f"{free_bytes / GIB:.1f} GiB are free where {settings.home} lives"
    if free_bytes >= ENOUGH_FREE_BYTES:
        yield Finding("disk", "ok", detail)
    else:
        state: Literal["warn", "fail"] = "fail" if free_bytes < LEAST_FREE_BYTES else "warn"
        yield Finding("disk", state, detail, "make room: a full disk stops the log and the spool, and then the receiver answers 503")


def show(findings: list[Finding]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        advice = f" → {finding.advice}" if finding.advice else ""
        state = f"[{COLOURS[finding.state]}]{finding.state:<4}[/]"
        console.print(f"{state}  {escape(f'{finding.check:<{width}}')}  {escape(finding.detail + advice)}")


def _python(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = environment_with({"HOOKLAKE_HOME": str(home), "PYTHONSAFEPATH": "1"})
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def _words(output: str) -> str:
    return " ".join(output.split()).removeprefix("hooklake: ")


if __name__ == "__main__":
    run(app)
