"""Owns how children make way for others while their parent runs: by name, or with an overlap.

Both are generators that a parent steps through between two looks at its children, and that yield whenever they wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from infra.running.child import Child
from infra.running.supervisor import Supervisor
from schemas.errors import ConfigError

# A child that is not ready by then will be some time, or never; the others need not wait for it.
READY_WITHIN_S = 30.0


def replaced(children: Sequence[Child], *, supervisor: Supervisor, say: Callable[[str], None]) -> Iterator[None]:
    """Each child goes before its successor of the same name starts: nobody else may have that name. Those that are not among
    `children` go for good."""
    say("new settings are taken over, child by child")
    for name in set(supervisor.names()) - {child.name for child in children}:
        supervisor.retire(name)
    for child in children:
        if child.name in supervisor.names():
            supervisor.retire(child.name)
        while child.name in supervisor.names():
            yield
        supervisor.add(child, is_successor=True)
        yield from _until_ready(child.name, supervisor=supervisor)
    say("new settings are in use")


def relieved(
    count: int, *, next_child: Callable[[Sequence[str]], Child], supervisor: Supervisor, say: Callable[[str], None]
) -> Iterator[None]:
    """Each child goes when its successor, of another name, is ready: there is no moment without one.

    `next_child` makes one whose name is none of those in use. Raises ConfigError when the first successor dies instead of
    becoming ready: then the others stay as they are.
    """
    say("new settings are taken over, child by child")
    leaving = [name for name in supervisor.names() if not supervisor.is_retired(name)]
    for index in range(count):
        # Those that were told to go may take their time; there must not be more of them with every change.
        while sum(map(supervisor.is_retired, supervisor.names())) >= count:
            yield
        child = next_child(supervisor.names())
        supervisor.add(child, is_successor=True)
        yield from _until_ready(child.name, supervisor=supervisor, is_hopeless=lambda name: supervisor.deaths_of(name) > 0)
        if index == 0 and supervisor.deaths_of(child.name):
            supervisor.retire(child.name)
            raise ConfigError(f"{child.name}, the first that was started with them, died; its last lines in the log say why")
        # Those in excess of `count` go with the last one.
        last = index + 1 if index + 1 < count else len(leaving)
        for name in leaving[index:last]:
            supervisor.retire(name)
    while any(supervisor.is_retired(name) and supervisor.is_ready(name) for name in supervisor.names()):
        yield  # It has not heard yet, and takes requests still.
    say("new settings are in use")


def _until_ready(name: str, *, supervisor: Supervisor, is_hopeless: Callable[[str], bool] = lambda _: False) -> Iterator[None]:
    """Ends also when it takes too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while not (supervisor.is_ready(name) or is_hopeless(name) or time.monotonic() > deadline):
        yield
