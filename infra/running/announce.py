"""Owns what `hooklake up` prints: addresses, ports, where the logs are, a signed curl line, and each change as one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from infra.running.services import CONNECT_FILE, RECEIVER, ArchivePorts, connect_port, services_of
from infra.settings import Settings, environment_with

# What each scheme's example event is called.
EXAMPLES = {"github": "push"}


class Announcer:
    """Prints for people; colours on a terminal only, and a terminal that went away is no reason to stop."""

    def __init__(self, settings: Settings, *, address: tuple[str, int]) -> None:
        self._settings = settings
        self._base = f"http://{_reachable(address[0])}:{address[1]}"
        self._console = Console(highlight=False, soft_wrap=True)
        self._showed_example = False
        self._printing = threading.Lock()
        self._is_over = False

    def say(self, sentence: str) -> None:
        self._print(escape(sentence))

    def begin(self) -> None:
        home = self._settings.home
        self._print(f"[bold]hooklake[/bold] is starting; Ctrl-C stops it. Everything it keeps is in {escape(str(home))}")
        rows = [("senders post to", self._address(tenant, source=source)) for tenant, source in sources_of(self._settings)]
        rows += [
            (f"{service.name} metrics", escape(f"http://{_reachable(service.ops_host)}:{service.ops_port}/metrics"))
            for service in services_of(self._settings)
        ]
        rows += [("notebooks connect to", escape(address)) for address in connect_addresses(self._settings)]
        rows += [("logs", escape(str(home / "logs")))]
        width = max(len(label) for label, _ in rows)
        for label, value in rows:
            self._print(f"  {escape(f'{label:<{width}}')}  {value}")

    def _address(self, tenant: str, *, source: str) -> str:
        shown = escape(f"{self._base}/hooks/{tenant}/{source}")
        is_open = is_unsigned(self._settings, tenant=tenant, source=source)
        return f"{shown} [bold red](unsigned: anybody may send)[/bold red]" if is_open else shown

    def on_ready(self, name: str) -> None:
        """Shows the example once, when there is somebody to receive it."""
        if name != RECEIVER or self._showed_example:
            return
        self._showed_example = True
        line = signed_curl(self._settings, base=self._base)
        look = f'then look at it: {escape(command_that_works())} query "SELECT event_type, repository, received_at FROM events"\n'
        with self._printing:
            if line and not self._is_over:
                self._print(f"send a signed event, in another terminal:\n\n{escape(line)}\n\n{look}")

    def drop_example(self) -> None:
        """Nothing is shown from now on: whoever is refused must find the reason in the last line."""
        with self._printing:
            self._is_over = True

    def _print(self, text: str) -> None:
        with suppress(OSError):
            self._console.print(text)


def sources_of(settings: Settings) -> list[tuple[str, str]]:
    """(tenant, source) of every configured sender, read by name; the receiver checks them."""
    found = []
    for tenant, section in settings.file.tenants.items():
        sources = section.get("sources") if isinstance(section, dict) else None
        found += [(str(tenant), str(source)) for source in sources] if isinstance(sources, dict) else []
    return found


def connect_addresses(settings: Settings) -> list[str]:
    """Where the archive's Spark can be asked, once it is ready; the file has the token too, and a port that was chosen freely."""
    if not settings.section("archive", ArchivePorts).connect:
        return []
    port = connect_port(settings)
    place = f"sc://localhost:{port}, with the token of" if port else "the address in"
    return [f"{place} {settings.home / CONNECT_FILE}"]


def is_unsigned(settings: Settings, *, tenant: str, source: str) -> bool:
    """Whether its events are taken from whoever knows its address."""
    section = settings.file.tenants[tenant]["sources"][source]
    return isinstance(section, dict) and section.get("unsigned") is True


def unsigned_sources(settings: Settings) -> list[str]:
    """As `tenant/source`."""
    return [f"{tenant}/{source}" for tenant, source in sources_of(settings) if is_unsigned(settings, tenant=tenant, source=source)]


def signed_curl(settings: Settings, *, base: str) -> str:
    """A curl line for the first source, from the module that signs; empty when it has none to offer."""
    for tenant, source in sources_of(settings)[:1]:
        scheme = settings.file.tenants[tenant]["sources"][source].get("scheme", "")
        command = [
            sys.executable,
            "-m",
            "ingest.send",
            source,
            EXAMPLES.get(scheme, "example"),
            "--tenant",
            tenant,
            "--curl",
            "--url",
            base,
        ]
        environment = environment_with({"HOOKLAKE_HOME": str(settings.home), "PYTHONSAFEPATH": "1"})
        made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        return made.stdout.strip() if made.returncode == 0 else ""
    return ""


def command_that_works() -> str:
    """`hooklake` where the shell finds ours by that name, else its path."""
    ours = Path(sys.executable).parent / "hooklake"
    found = shutil.which("hooklake")
    if found is not None and Path(found).resolve() == ours.resolve():
        return "hooklake"
    with suppress(ValueError):
        return str(ours.relative_to(Path.cwd()))
    return str(ours)


def _reachable(host: str) -> str:
    """An address that can be pasted: a receiver that listens everywhere is reached at home."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
