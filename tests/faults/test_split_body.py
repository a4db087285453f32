"""A receiver that dies with a body of several events in hand leaves all of them or none. The control leaves the first."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import httpx
import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from tests.faults.receiver_process import REAL, receiver
from tests.faults.test_accepted_means_synced import ids_on
from tests.ingest.receivers import GENERIC_SECRET, fresh_prefix, write_home

BROKEN = "tests.faults.broken.receiver_appends_part_by_part"
BODY = b"[" + b",".join(b'{"n":%d}' % number for number in range(5)) + b"]"
SOURCE = {
    "scheme": "generic", "secrets": ["file:secrets/generic"], "header": "X-Signature", "delivery_id_header": "X-Delivery", "split": True,
}  # fmt: skip


def post(hook: str) -> httpx.Response:
    signature = hmac.new(GENERIC_SECRET, BODY, hashlib.sha256).hexdigest()
    return httpx.post(hook, content=BODY, headers={"x-signature": signature, "x-delivery": "one"}, timeout=30)


@pytest.mark.parametrize(
    ("module", "failpoint", "left"),
    [
        pytest.param(REAL, "receiver.before_append", 0, id="before", marks=pytest.mark.fault("A4")),
        pytest.param(REAL, "receiver.before_answer", 5, id="after", marks=pytest.mark.fault("A4")),
        pytest.param(BROKEN, "receiver.before_answer", 1, id="control", marks=pytest.mark.control("A4")),
    ],
)
def test_all_parts_of_a_body_are_on_the_log_or_none(
    tmp_path: Path, log_server: EmbeddedServer, module: str, failpoint: str, left: int
) -> None:
    log = LogSettings(url=log_server.url, prefix=fresh_prefix())
    home = write_home(tmp_path, log=log, tenants={"demo": {"sources": {"github": SOURCE}}})

    with receiver(module, home=home, log_url=log.url, FAILPOINT=f"{failpoint}=kill") as hook, pytest.raises(httpx.TransportError):
        post(hook)
    assert len(ids_on(log, home=home)) == left

    with receiver(module, home=home, log_url=log.url) as hook:
        again = post(hook)

    # The sender's retry brings whatever was missing, once.
    assert (again.status_code, again.json()["parts"], again.json()["duplicate"]) == (202, 5, left == 5)
    assert len(ids_on(log, home=home)) == 5
