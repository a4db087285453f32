from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest
import yaml

from infra.settings import LogSettings, environment_with
from infra.streams.stream import EventStream
from processors.crew import named_consumer, wanted_names
from schemas.errors import ConfigError
from tests.documents import ROOT
from tests.events import an_event
from tests.processors.endpoint import serving
from tests.processors.waiting import until


def test_two_workers_of_one_machine_have_two_names_and_keep_them(home: Path) -> None:
    with named_consumer("", group="g", home=home) as first, named_consumer("", group="g", home=home) as second:
        assert first != second
    with named_consumer("", group="g", home=home) as again, named_consumer("", group="other", home=home) as elsewhere:
        assert again == elsewhere == first
        assert re.fullmatch(r".+-0", first)


def test_a_name_in_use_is_refused(home: Path) -> None:
    refused = pytest.raises(ConfigError, match="--consumer mine is the name of a worker that runs in group g already")

    with named_consumer("mine", group="g", home=home), refused, named_consumer("mine", group="g", home=home):
        pass


def test_several_children_number_the_given_name() -> None:
    assert wanted_names("mine", count=1) == ["mine"]
    assert wanted_names("mine", count=2) == ["mine-0", "mine-1"]
    assert wanted_names("", count=2) == ["", ""]


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
