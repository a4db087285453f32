"""Bodies that never end: whoever else sends is answered as ever while they last."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from tests.faults.genuine import DEADLINE_S, initialise_two_tenants, measured, send_in_pieces, send_signed
from tests.faults.receiver_process import REAL, receiver_process
from tests.faults.test_connections import settings_of, unfinished

ONE_BY_ONE = "tests.faults.broken.receiver_reads_one_by_one"
# Long enough that nothing ends before the others were answered.
PATIENT = {"INGEST__HEAD_TIMEOUT_MS": "60000", "INGEST__BODY_TIMEOUT_MS": "60000"}
KINDS = (send_signed, send_in_pieces)


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A6")),
        pytest.param(ONE_BY_ONE, False, id="control", marks=pytest.mark.control("A6")),
    ],
)
def test_the_events_of_another_tenant_take_no_longer_while_requests_do_not_end(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise_two_tenants(tmp_path)
    settings = {**settings_of(tmp_path), **PATIENT}
    with receiver_process(module, home=tmp_path, log_url=log_server.url, settings=settings) as running:
        before = measured(running, sends=KINDS, home=tmp_path, count=10 * times)
        with unfinished(running, count=200 * times):
            # Whoever is held up is held up for as long as they last: a few show it.
            count, deadline_s = (10 * times, DEADLINE_S) if is_faithful else (3, 1.0)
            during = measured(running, sends=KINDS, home=tmp_path, count=count, deadline_s=deadline_s)

    assert before.statuses == {202}
    assert (during.statuses == {202}) is is_faithful
    assert during.is_held_up(before=before) is not is_faithful, f"{before.median_s} s before, {during.median_s} s during"
