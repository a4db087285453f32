"""Owns a command's side of a request: asks the archive that runs and follows it, or does it here when none runs."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from analytics.__main__ import open_chains, open_spark
from analytics.acts import Desk
from analytics.chains import Chains
from analytics.ownership import LOCK_NAME
from analytics.requests import Requests, Result, Tell
from analytics.settings import ArchiveSettings, is_address, table_location
from infra.running.screen import visible
from infra.settings import Settings
from infra.telemetry import Telemetry
from schemas.errors import NotTheArchive, RequestFailed, Unavailable

LOOK_EVERY_S = 0.1
# A supervisor starts a dead archive anew within this time; only then is it done here.
PATIENCE_S = 15.0
# Where no lock shows whether an archive runs.
TAKEN_UP_WITHIN_S = 60.0


def answered(settings: Settings, *, act: str, arguments: Mapping[str, Any]) -> Result:
    """What came of it; raises what the archive raised, and Unavailable when nobody could do it."""
    requests = Requests(settings.home)
    name = requests.ask(act, arguments=arguments)
    try:
        with bar() as show:
            return Following(settings, requests, name, show).until_answered()
    except KeyboardInterrupt as error:
        raise RequestFailed(f"you have left, and the request {name} stays: the archive goes on with it, or the next one does it") from error


class Following:
    """One request, from the eyes of who asked."""

    def __init__(self, settings: Settings, requests: Requests, name: str, show: Tell) -> None:
        self._settings = settings
        self._section = settings.section("archive", ArchiveSettings)
        self._requests = requests
        self._name = name
        self._show = show
        self._began = time.monotonic()
        self._free_since = self._began - PATIENCE_S  # Nobody need be waited for who is not there in the beginning.

    def until_answered(self) -> Result:
        while (result := self._requests.take_answer(self._name)) is None:
            if (progress := self._requests.progress(self._name)) is not None:
                self._show(progress.doing, progress.done, progress.of)
            if self._is_left_alone():
                self._do_it_here()
            else:
                time.sleep(LOOK_EVERY_S)
        return result

    def _is_left_alone(self) -> bool:
        """Whether no archive has owned the tables for a while."""
        if is_address(self._section.path):
            self._give_up_on_an_address()
            return False
        lake = Path(table_location(self._section, home=self._settings.home, table=""))
        now = time.monotonic()
        if is_owned(lake):
            self._free_since = now
        return now - self._free_since >= PATIENCE_S

    def _give_up_on_an_address(self) -> None:
        is_taken_up = self._requests.progress(self._name) is not None
        if not is_taken_up and time.monotonic() - self._began > TAKEN_UP_WITHIN_S:
            self._requests.withdraw(self._name)
            raise Unavailable(f"no archive has taken the request up within {TAKEN_UP_WITHIN_S:.0f} s: start the archive, then ask again")

    def _do_it_here(self) -> None:
        quiet = self._settings.telemetry.model_copy(update={"log_level": "error"})
        try:
            with ExitStack() as stack:
                telemetry = Telemetry.start("archive", quiet, home=self._settings.home)
                stack.callback(telemetry.shutdown)
                chains = self._opened(telemetry, stack=stack)
                Desk(self._requests, telemetry).carry_out(self._name, chains=chains, told=self._show)
        except NotTheArchive:
            self._free_since = time.monotonic()  # One has come in this very moment, and will do it.
        except Unavailable as error:
            raise Unavailable(f"{error}; the request {self._name} stays, and the next archive carries it out") from error

    def _opened(self, telemetry: Telemetry, *, stack: ExitStack) -> Chains:
        self._show("starting Spark, since no archive runs", 0, 0)
        spark = open_spark(self._settings, section=self._section, stack=stack)
        chains = open_chains(self._settings, section=self._section, spark=spark, telemetry=telemetry, stack=stack)
        self._show("draining the log", 0, 0)
        chains.begin()
        chains.drain()
        return chains


def is_owned(lake: Path) -> bool:
    """An archive that starts in this very moment may find the tables taken; whoever looks after it tries again."""
    try:
        with (lake / LOCK_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def bar() -> Iterator[Tell]:
    """Shows what is told on a terminal, as a bar where there is something to count; nothing elsewhere."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("asking the archive", total=None)

        def show(doing: str, done: int, of: int) -> None:
            progress.update(task, description=visible(doing), completed=done, total=of or None)

        yield show
