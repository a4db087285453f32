from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from analytics.settings import ArchiveSettings
from infra.running.initialise import initialise
from infra.running.services import ArchivePorts, ReceiverPorts, WorkerPorts, refuse_shared_ports, services_of
from infra.settings import load_settings
from ingest.settings import IngestSettings
from processors.settings import GroupSettings
from schemas.errors import ConfigError


@pytest.mark.parametrize(
    ("ours", "theirs"), [(ReceiverPorts, IngestSettings), (WorkerPorts, GroupSettings), (ArchivePorts, ArchiveSettings)]
)
def test_what_we_read_by_name_is_what_the_service_declares(ours: type[BaseModel], theirs: type[BaseModel]) -> None:
    for name, field in ours.model_fields.items():
        assert theirs.model_fields[name].annotation == field.annotation
        assert theirs.model_fields[name].default == field.default
        if field.annotation is int:
            assert theirs.model_fields[name].metadata == field.metadata
            assert field.metadata, "a port has bounds"


def test_there_is_a_worker_for_each_group(home: Path) -> None:
    initialise(home)
    file = home / "hooklake.yaml"
    file.write_text(file.read_text().replace("groups:\n", "groups:\n  billing: {module: shop.billing, ops_port: 9202}\n"))

    services = services_of(load_settings(home))

    assert [service.name for service in services] == ["receiver", "worker-billing", "worker-example", "archive"]
    assert services[1].arguments == ("--group", "billing")
    assert (services[1].ops_port, services[1].ops_setting) == (9202, "groups.billing.ops_port")


def test_two_settings_with_one_port_are_both_named(home: Path) -> None:
    (home / "hooklake.yaml").write_text("groups: {a: {module: m}, b: {module: m}}\n")

    with pytest.raises(ConfigError, match=r"groups\.b\.ops_port=9102 is also groups\.a\.ops_port"):
        refuse_shared_ports(load_settings(home))


def test_free_ports_chosen_by_the_system_do_not_collide(home: Path) -> None:
    (home / "hooklake.yaml").write_text("groups: {a: {ops_port: 0}, b: {ops_port: 0}}\n")

    refuse_shared_ports(load_settings(home))
