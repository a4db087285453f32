"""Controls of erasing: each runs the very contract without one protection, and sees it fail."""

from __future__ import annotations

from typing import Any

import pytest

from infra.streams.erasing import Erasing
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from tests.contracts import test_erase as erase
from tests.contracts.test_erase import erasing as erasing
from tests.contracts.test_erase import log as log
from tests.faults.breaking import break_script
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream


@pytest.mark.control("F2")
async def test_without_noting_what_went_groups_count_it_as_lost(
    monkeypatch: pytest.MonkeyPatch,
    stream: EventStream,
    pipeline: Pipeline,
    keys: Keys,
    client: Any,
    archive_log: ArchiveLog,
    erasing: Erasing,
) -> None:
    break_script(
        monkeypatch,
        "erase_events",
        ("seen.removed = seen.removed + removed", ""),
        ("life.gone = together(life.gone, ranges)", ""),
    )

    with pytest.raises(AssertionError, match=r"\[0, [1-9]\] == \[0, 0\]"):
        await erase.test_what_was_erased_is_no_loss_to_a_group_and_its_numbers_are_written_down(
            stream, pipeline, keys, client, archive_log, erasing
        )
