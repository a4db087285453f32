from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from infra.running.sockets import inherited, listen
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
