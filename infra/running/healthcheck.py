"""Owns `hooklake healthcheck`: asks a running service through its ops port, or the log with a PING; for containers."""

from __future__ import annotations

import http.client
import sys
from typing import Annotated

import typer

from infra.running.cli import run
from infra.running.services import Service, services_of
from infra.running.sockets import reachable
from infra.settings import Settings, load_settings
from infra.streams.connection import open_blocking, translated
from schemas.errors import ConfigError, HooklakeError

LOG = "log"
TIMEOUT_S = 2.0
LONGEST_REMARK = 2000

app = typer.Typer(add_completion=False)


@app.command()
def healthcheck(
    service: Annotated[str, typer.Argument(help="log, receiver, worker, worker-GROUP or archive; all of them when not given.")] = "",
    alive: Annotated[bool, typer.Option("--alive", help="Ask only whether the process lives, not whether it does its work.")] = False,
) -> None:
    """Asks a service whether it is ready; exits with 0 when it is and with 1 when it is not."""
    settings = load_settings()
    path = "/healthz" if alive else "/readyz"
    answers: dict[str, bool | None] = {LOG: log_answers(settings)} if service in ("", LOG) else {}
    answers |= {found.name: is_fine(found, path=path) for found in chosen(services_of(settings), service=service)}
    for name, answer in answers.items():
        print(sentence(name, answer=answer, state="alive" if alive else "ready"))
    sys.exit(0 if all(answers.values()) else 1)


def sentence(name: str, *, answer: bool | None, state: str) -> str:
    if answer is None:
        return f"{name} may be {state} or not: its ops_port is 0, so it cannot be asked"
    return f"{name} is {state}" if answer else f"{name} is not {state}"


def chosen(services: list[Service], *, service: str) -> list[Service]:
    """The services that a word means; raises ConfigError when there are none."""
    if service == LOG:
        return []
    found = [known for known in services if service in ("", known.name, known.kind)]
    if not found:
        names = ", ".join([LOG, *(known.name for known in services)])
        raise ConfigError(f"there is no service {service!r} in these settings, so nothing was asked: use one of {names}")
    return found


def is_fine(service: Service, *, path: str = "/readyz") -> bool | None:
    """What the service answers; None when its ops port is a free one that only its log tells."""
    return answers_ok(service.ops_port, host=reachable(service.ops_host), path=path) if service.ops_port else None


def answers_ok(port: int, *, host: str = "127.0.0.1", path: str = "/readyz") -> bool:
    """True when the ops port of a process on this machine answers with 200."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def remark_of(service: Service) -> str:
    """What a service says beside whether it is ready, such as why new settings are not in use; empty when it does not answer."""
    connection = http.client.HTTPConnection(reachable(service.ops_host), service.ops_port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().read(LONGEST_REMARK).decode(errors="replace").partition("\n")[2].strip()
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def log_answers(settings: Settings) -> bool:
    try:
        client = open_blocking(settings.log, home=settings.home)
        with client, translated():
            return bool(client.ping())
    except HooklakeError:
        return False


if __name__ == "__main__":
    run(app)
