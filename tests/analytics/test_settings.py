from __future__ import annotations

import pytest

from analytics.settings import ArchiveSettings
from infra.settings import validate
from schemas.errors import ConfigError


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[*,3]",
        "local[2, 3]",
        "local-cluster[2,1,1024]",
        "yarn",
        "spark://a:7077,b:7077",
        "k8s://https://cluster:6443",
    ],
)
def test_what_spark_understands_is_a_master(master: str) -> None:
    assert ArchiveSettings(master=master).master == master


@pytest.mark.parametrize("master", ["foo", "local[]", "local[0]", "local[-1]", "spark://", "mesos://a:5050", "local[*] ", "yarn-client"])
def test_what_spark_cannot_understand_is_refused_by_name(master: str) -> None:
    with pytest.raises(ConfigError, match=r"archive\.master is wrong: Spark knows no master .* so the archive could never start"):
        validate({"master": master}, ArchiveSettings, at="archive")
