from __future__ import annotations

import pytest

from infra.log_address import node_address, primary_address, seed_nodes, sentinel_addresses, service_name, shown, why_no_address


@pytest.mark.parametrize(
    "url",
    [
        "embedded",
        "redis://127.0.0.1",
        "redis://:secret@log:6379/0",
        "redis://bob:secret@[::1]:6379/",
        "redis://log?db=3",
        "rediss://log:6380/1?ssl_ca_certs=/etc/ca.pem&ssl_cert_reqs=required",
        "unix:///run/log.sock",
        "unix://:secret@/run/log.sock?db=3",
        "redis+cluster://log:7000,log:7001/0",
        "redis+cluster://:secret@[::1]:7000,log",
        "rediss+cluster://bob:secret@log?ssl_ca_certs=/etc/ca.pem",
        "redis+sentinel://log-1,log-2:26380/my.log_1",
        "redis+sentinel://bob:secret@[::1]:26379/log/3?sentinel_username=eve&sentinel_password=p%40ss",
        "rediss+sentinel://:secret@log/log/?ssl_ca_certs=/etc/ca.pem",
    ],
)
def test_an_address_that_both_clients_understand_is_taken(url: str) -> None:
    assert why_no_address(url) == ""


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "neither `embedded` nor an address"),
        ("localhost:6379", "neither `embedded` nor an address"),
        ("http://log", "neither `embedded` nor an address"),
        ("redis://log:port/0", "it is no address"),
        ("redis://[::1/0", "it is no address"),
        ("redis://log:0", "it names no host, or the port 0"),
        ("redis:///0", "it names no host, or the port 0"),
        ("unix://", "needs the path of a socket"),
        ("redis://log/first", "the database first is no number"),
        ("redis://log?db=one", "the database one is no number"),
        ("redis://bob@log", "the user bob without a password, so nobody would be authenticated"),
        ("redis://log?ssl_ca_certs=/etc/ca.pem", "its option ssl_ca_certs would have no effect; a redis:// address knows db"),
        ("rediss://log?ssl_ciphers=any", "its option ssl_ciphers would have no effect"),
        ("rediss://log?ssl_cert_reqs=perhaps", "its option ssl_cert_reqs is none of none, optional, required"),
        ("redis://log?socket_timeout=1", "its option socket_timeout would have no effect"),
        ("unix+cluster:///run/log.sock", "neither `embedded` nor an address"),
        ("redis+cluster://log:7000,log:port", "it is no address"),
        ("redis+cluster://log:7000,", "it names no host, or the port 0"),
        ("redis+cluster://log/1", "it names the database 1, and a cluster has only the database 0"),
        ("redis+cluster://log?db=1", "it names the database 1, and a cluster has only the database 0"),
        ("redis+cluster://bob@log", "the user bob without a password"),
        ("redis+cluster://log?ssl_ca_certs=/etc/ca.pem", "its option ssl_ca_certs would have no effect"),
        ("unix+sentinel:///run/log.sock", "neither `embedded` nor an address"),
        ("redis+sentinel://log:26379", "it needs the name of the service that they watch"),
        ("redis+sentinel://log:26379/", "it needs the name of the service that they watch"),
        ("redis+sentinel://log/name/first", "it needs the name of the service that they watch"),
        ("redis+sentinel://log/name/0/1", "it needs the name of the service that they watch"),
        ("redis+sentinel://log,/name", "it names no host, or the port 0"),
        ("redis+sentinel://log:0/name", "it names no host, or the port 0"),
        ("redis+sentinel://log:port/name", "it is no address"),
        ("redis+sentinel://log/name?db=1", "write the database after the name of the service"),
        ("redis+sentinel://bob@log/name", "the user bob without a password"),
        ("redis+sentinel://log/name?sentinel_username=eve", "the user eve without a password"),
        ("redis+sentinel://log/name?ssl_ca_certs=/etc/ca.pem", "its option ssl_ca_certs would have no effect"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_with_the_reason(url: str, sentence: str) -> None:
    assert sentence in why_no_address(url)


def test_the_reason_never_shows_the_password() -> None:
    for url in (
        "redis+cluster://:hunter2@log,log:port",
        "redis+sentinel://:hunter2@log:port/name",
        "redis+sentinel://:hunter2@log",
        "redis+sentinel://log/name?sentinel_username=eve&sentinel_password=hunter2&x=1",
        "http://:hunter2@log",
        "redis://:hunter2@log:port",
        "redis://:hunter2@log/first",
        "redis://:hunter2@log?x=1",
    ):
        assert "hunter2" not in why_no_address(url)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("embedded", "embedded"),
        ("redis://bob:hunter2@log:6379/0", "redis://log:6379"),
        ("rediss://:hunter2@[::1]:6380/1?ssl_ca_certs=/etc/ca.pem", "rediss://[::1]:6380"),
        ("redis://log", "redis://log"),
        ("unix://:hunter2@/run/log.sock?db=3", "unix:///run/log.sock"),
        ("redis+cluster://bob:hunter2@log:7000,log:7001/0", "redis+cluster://log:7000,log:7001"),
        ("redis+sentinel://bob:hunter2@log:1,log:2/name/3?sentinel_password=hunter2", "redis+sentinel://log:1,log:2/name"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, address: str) -> None:
    assert shown(url) == address


def test_an_address_of_a_cluster_names_nodes_that_share_its_password_and_options() -> None:
    url = "rediss+cluster://bob:a%40b@[::1]:7000,log,log:7001/0?ssl_cert_reqs=none"

    assert seed_nodes(url) == ["[::1]:7000", "log:6379", "log:7001"]
    assert node_address(url, node="10.0.0.1:7002") == "rediss://bob:a%40b@10.0.0.1:7002/0?ssl_cert_reqs=none"


def test_an_address_of_sentinels_has_two_logins_one_name_and_the_options_of_all() -> None:
    url = "rediss+sentinel://bob:a%40b@[::1],log:26380/my-log/3?ssl_cert_reqs=none&sentinel_username=eve&sentinel_password=c%40d"

    assert service_name(url) == "my-log"
    assert sentinel_addresses(url) == [
        "rediss://eve:c%40d@[::1]:26379/0?ssl_cert_reqs=none",
        "rediss://eve:c%40d@log:26380/0?ssl_cert_reqs=none",
    ]
    assert primary_address(url, node="10.0.0.1:6379") == "rediss://bob:a%40b@10.0.0.1:6379/3?ssl_cert_reqs=none"


def test_sentinels_without_a_login_are_given_none() -> None:
    url = "redis+sentinel://:secret@log/name"

    assert sentinel_addresses(url) == ["redis://log:26379/0"]
    assert primary_address(url, node="10.0.0.1:6379") == "redis://:secret@10.0.0.1:6379/0"
