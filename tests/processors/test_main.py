from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import yaml

from infra.settings import LogSettings, environment_with
from infra.streams.stream import EventStream
from tests.documents import ROOT
from tests.events import an_event
from tests.processors.endpoint import serving
from tests.processors.waiting import until


async def test_a_worker_forwards_by_settings_alone_until_it_is_stopped(stream: EventStream, log: LogSettings, home: Path) -> None:
    event = an_event()
    with serving() as endpoint:
        crm = {"forward": {"url": f"{endpoint.url}/in", "allow_private": True}, "ops_port": 0, "block_ms": 50}
        (home / "hooklake.yaml").write_text(yaml.safe_dump({"log": log.model_dump(), "groups": {"crm": crm}}))
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "processors", "--group", "crm", cwd=ROOT, env=environment_with({"HOOKLAKE_HOME": str(home)})
        )
        try:
            await stream.append(event)
            await until(lambda: len(endpoint.requests) == 1)
        finally:
            worker.send_signal(signal.SIGTERM)
            exit_code = await asyncio.wait_for(worker.wait(), 60)

    assert endpoint.requests[0].headers["idempotency-key"] == f"crm:{event.id}"
    assert exit_code == 0
