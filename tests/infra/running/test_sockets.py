from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from infra.running.sockets import inherited, listen, reachable
from schemas.errors import ConfigError


def test_a_port_in_use_is_a_config_error_that_names_the_setting() -> None:
    with listen("127.0.0.1", port=0, setting="test") as taken:
        port = taken.getsockname()[1]

        with pytest.raises(
            ConfigError, match=rf"some\.port={port} cannot be used on 127\.0\.0\.1 \(Address already in use\).*set another port"
        ):
            listen("127.0.0.1", port=port, setting="some.port")


def test_an_address_of_another_machine_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"some\.port=0 cannot be used on 192\.0\.2\.1"):
        listen("192.0.2.1", port=0, setting="some.port")


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "a..b"])
def test_a_host_that_this_machine_is_not_is_blamed_by_its_own_setting(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"^some\.host={host} is no address of this machine \(.*\), so nothing could be received"):
        listen(host, port=0, setting="some.port", host_setting="some.host")


def test_who_listens_everywhere_is_asked_at_home() -> None:
    assert [reachable(host) for host in ("0.0.0.0", "::", "10.0.0.1")] == ["127.0.0.1", "::1", "10.0.0.1"]


def test_a_host_that_does_not_exist_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.host\.invalid"):
        listen("no.such.host.invalid", port=0, setting="some.port")


def test_a_file_is_no_listening_socket(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ConfigError, match="is no socket"):
            inherited(descriptor)
    finally:
        os.close(descriptor)


def test_a_socket_that_does_not_listen_is_refused() -> None:
    with socket.socket() as idle, pytest.raises(ConfigError, match="does not listen"):
        inherited(idle.fileno())
