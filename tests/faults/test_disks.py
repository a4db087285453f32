"""Power cuts, full disks, disks that fail to sync and bytes that rot, beneath the log and beneath the spool."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.segments import HEAD_BYTES
from infra.spools import Folder, read_spools
from tests.faults.disks import disk, injected, small_disk, why_no_mounts
from tests.faults.outage import entries_on, outage, stored_on
from tests.faults.receiver_process import BODY, REAL, post, receiver
from tests.infra.running.processes import until
from tests.ingest.spooling import segment_files, spooled_events
from tests.ports import free_port

SYNCS_NOTHING = "tests.faults.broken.receiver_syncs_nothing"
IGNORES_ITS_DISK = "tests.faults.broken.receiver_ignores_its_disk"
CHECKS_NOTHING = "tests.faults.broken.receiver_checks_no_spool"
SETTLES_FIRST = "tests.faults.broken.receiver_settles_first"


needs_mounts = pytest.mark.usefixtures("mounts")


@pytest.fixture
def mounts() -> None:
    """Where nothing can be mounted, nobody can be asked to: such tests are skipped with the reason."""
    if reason := why_no_mounts():
        pytest.skip(reason)


def a_server(directory: Path, **options: str) -> EmbeddedServer:
    return EmbeddedServer(directory, free_port(), password="a-test-password", options=options)


def spool_on(folder: Path, *, home: Path) -> None:
    """Lets the spool of a new home be on another disk."""
    initialise(home)
    (home / "spool").symlink_to(folder)


@needs_mounts
@pytest.mark.parametrize(
    ("module", "options", "durability"),
    [
        pytest.param(REAL, {}, "fsync", id="real", marks=pytest.mark.fault("B2")),
        pytest.param(SYNCS_NOTHING, {"appendfsync": "no"}, "relaxed", id="control", marks=pytest.mark.control("B2")),
    ],
)
def test_a_power_cut_loses_nothing_that_was_accepted_on_the_log_or_in_the_spool(
    tmp_path: Path, module: str, options: dict[str, str], durability: str, times: int
) -> None:
    numbers = range(20 * times)
    with disk(tmp_path) as own_disk:
        spool_on(own_disk.mounted, home=tmp_path / "home")
        server = a_server(own_disk.mounted / "log", **options)
        server.start()
        with outage(module, folder=tmp_path, server=server, LOG__DURABILITY=durability) as at:
            on_log = {answer.json()["event_id"] for answer in at.send(*(f"log-{number}" for number in numbers))}
            server.kill()
            in_spool = {answer.json()["event_id"] for answer in at.send(*(f"spool-{number}" for number in numbers))}
            with own_disk.after_a_power_cut() as left:
                survivor = a_server(left / "log", **options)
                survivor.start()
                stored = {fields[b"id"].decode() for fields in entries_on(survivor, home=at.home)}
                survivor.kill()
                spool_on(left, home=tmp_path / "after")
                spooled = {event.id for event in spooled_events(tmp_path / "after")}

    assert (at.accepted, at.spooled(*(f"spool-{number}" for number in numbers))) == (set(at.answers), True)
    assert [stored >= on_log, spooled >= in_spool] == [module == REAL] * 2


@needs_mounts
@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("B10")),
        pytest.param(IGNORES_ITS_DISK, False, id="control", marks=pytest.mark.control("B10")),
    ],
)
def test_a_full_disk_beneath_the_log_is_spooled_and_beneath_both_it_is_503(tmp_path: Path, module: str, is_faithful: bool) -> None:
    with small_disk(tmp_path / "a", size="4m") as of_log, small_disk(tmp_path / "b", size="1m") as of_spool:
        spool_on(of_spool, home=tmp_path / "home")
        server = a_server(of_log / "log")
        server.start()
        with outage(module, folder=tmp_path, server=server) as at:
            at.send("before")
            fill(of_log / "filler")
            at.send(*(f"log-full-{number}" for number in range(10)))
            fill(of_spool / "filler")
            refused = at.send(*(f"both-full-{number}" for number in range(10)))[-1]
            for folder in (of_log, of_spool):
                (folder / "filler").unlink()
            at.send("after")
            server.kill()
            server.start()
            until(lambda: not segment_files(at.home), what="the spool is emptied")
            stored = at.stored()

    assert (refused.status_code == 503 and refused.json()["error"]["code"] == "spool_unavailable") is is_faithful
    assert (all(stored[delivery] == 1 for delivery in at.accepted)) is is_faithful
    assert {"before", "log-full-9", "after"} <= at.accepted
    assert at.spooled("log-full-9")


@needs_mounts
@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("B11")),
        pytest.param(IGNORES_ITS_DISK, False, id="control", marks=pytest.mark.control("B11")),
    ],
)
def test_a_disk_that_fails_to_sync_the_spool_is_503_once_and_what_was_accepted_is_on_it(
    tmp_path: Path, module: str, is_faithful: bool
) -> None:
    with disk(tmp_path) as own_disk:
        spool_on(own_disk.mounted, home=tmp_path / "home")
        with outage(module, folder=tmp_path) as at:
            at.server.kill()
            at.send("before")
            (child,) = at.receiver.children
            with injected(child, "error=EIO:when=1"):
                (failed,) = at.send("not-synced")
            with own_disk.after_a_power_cut() as left:
                spool_on(left, home=tmp_path / "after")
                survived = {event.delivery_id for event in spooled_events(tmp_path / "after")}
            accepted = at.accepted
            at.send("after")
            at.server.start()
            at.drained()
            stored = at.stored()

    assert (failed.status_code == 503 and failed.json()["error"]["code"] == "spool_unavailable") is is_faithful
    assert (accepted == survived) is is_faithful
    assert at.spooled("before", "after")
    assert stored == dict.fromkeys(at.accepted, 1)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("B3")),
        pytest.param(CHECKS_NOTHING, False, id="control", marks=pytest.mark.control("B3")),
    ],
)
def test_a_body_that_rotted_in_the_spool_is_put_aside_and_all_others_are_kept(tmp_path: Path, module: str, is_faithful: bool) -> None:
    with outage(module, folder=tmp_path) as at:
        at.server.kill()
        at.send("first", "second", "third")
        (path,) = segment_files(at.home)
        data = bytearray(path.read_bytes())
        data[data.index(BODY, data.index(BODY) + 1)] ^= 1
        path.write_bytes(data)
        at.server.start()
        until(lambda: not segment_files(at.home), what="the spool is emptied")

        state = at.stored()
        bodies_fit = all(digest == hashlib.sha256(BODY).hexdigest() for digest in bodies_on(at.server, home=at.home))
        damaged = [path.stat().st_size for path in Folder(at.home / "spool" / "receiver-0").damaged()]

    assert (state == {"first": 1, "third": 1}) is is_faithful
    assert bodies_fit is is_faithful
    assert (len(damaged) == 1 and damaged[0] > HEAD_BYTES) is is_faithful


def bodies_on(server: EmbeddedServer, *, home: Path) -> list[str]:
    """The digest of each stored body, as it is."""
    return [hashlib.sha256(fields[b"payload"]).hexdigest() for fields in entries_on(server, home=home)]


@pytest.mark.parametrize(
    ("module", "failpoint", "is_faithful"),
    [
        pytest.param(REAL, "spool.before_settle", True, id="real", marks=pytest.mark.fault("A13")),
        pytest.param(SETTLES_FIRST, "broken.before_append", False, id="control", marks=pytest.mark.control("A13")),
    ],
)
def test_a_receiver_that_is_killed_while_it_empties_its_spool_appends_each_event_once(
    tmp_path: Path, module: str, failpoint: str, is_faithful: bool
) -> None:
    with outage(module, folder=tmp_path, FAILPOINT=f"{failpoint}=kill") as at:
        at.server.kill()
        at.send("first", "second")
        at.server.start()
        until(lambda: at.stored() == {"first": 1, "second": 1} or not segment_files(at.home), what="it came to the failpoint")
        url, home = at.server.url, at.home
        at_server = at.server
        with receiver(REAL, home=home, log_url=url) as hook:
            until(lambda: not any(state.events for state in read_spools(home)), what="the spool is emptied")
            post(hook, home=home, delivery="later")
            kept = stored_on(at_server, home=home)

    assert (kept == {"first": 1, "second": 1, "later": 1}) is is_faithful
