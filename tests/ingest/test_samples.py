"""Example bodies, one for every scheme."""

from __future__ import annotations

import pytest

from ingest.request import with_member
from ingest.samples import sample
from ingest.schemes import SCHEMES, Scheme
from schemas.errors import ConfigError


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)
def test_every_scheme_has_an_example(scheme: Scheme) -> None:
    assert sample(scheme, event_type="push", number=1) != b""


def test_a_body_that_is_too_deep_to_be_written_anew_cannot_be_signed() -> None:
    with pytest.raises(ConfigError, match="could hold created"):
        with_member(b'{"a":' * 600 + b"1" + b"}" * 600, path="created", value=1)
