"""Owns what the archive does when it is asked: takes up requests between two batches, carries each out once, and answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analytics import erasing, tending
from analytics.chains import Chains
from analytics.requests import Progress, Request, Requests, Result, Tell, error_answer
from infra.failpoints import reach
from infra.telemetry import Telemetry
from schemas.errors import ArchiveError, ConfigError, HooklakeError, Unavailable

Act = Callable[[Chains, Request, Tell], Result]
"""Can be repeated from its beginning; raises Unavailable when it is to be tried again, other errors of ours when it is not."""

ACTS: Mapping[str, Act] = {"erase": erasing.act, "upkeep": tending.act}


@dataclass(frozen=True, slots=True)
class Desk:
    """Where requests of one home are taken up."""

    requests: Requests
    telemetry: Telemetry

    def serve(self, chains: Chains) -> None:
        """Carries out what was asked for since the last look. One that has to wait holds up no other; its error is raised at the end."""
        reasons: list[Unavailable] = []
        for name in self.requests.waiting():
            try:
                self.carry_out(name, chains=chains)
            except Unavailable as error:
                reasons.append(error)
            self.requests.clear(now_s=time.time())
        if reasons:
            raise reasons[0]

    def carry_out(self, name: str, *, chains: Chains, told: Tell = lambda *_: None) -> None:
        """Answers the request, unless time may help: then it waits for the next round, and the error is raised."""

        def tell(doing: str, done: int, of: int) -> None:
            told(doing, done, of)
            self.requests.tell(name, progress=Progress(doing, done, of))

        try:
            answer: dict[str, object] = {"result": self._act(name, chains=chains, tell=tell)}
        except Unavailable as error:
            tell(f"waiting: {error}", 0, 0)
            self.requests.put_off(name)
            raise
        except ArchiveError:
            raise  # Nothing more is written by this process; the next one begins again.
        except HooklakeError as error:
            self.telemetry.log.warning("a request is refused", request=name, reason=str(error))
            answer = error_answer(error)
        reach("request.before_answer")
        self.requests.answer(name, content=answer)

    def _act(self, name: str, *, chains: Chains, tell: Tell) -> Result:
        request = self.requests.read(name)
        act = ACTS.get(request.act)
        if act is None:
            raise ConfigError(f"the archive that runs knows nothing of {request.act!r}: start the archive of this release")
        self.requests.begin(name)
        self.telemetry.log.info("a request is carried out", request=name, act=request.act, by=request.by)
        return act(chains, request, tell)
