from __future__ import annotations

from datetime import UTC, datetime

import pytest

from infra.running.moments import operator_name, parse_moment
from schemas.errors import ConfigError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("-2h", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("+10m", datetime(2026, 1, 31, 12, 10, tzinfo=UTC)),
        ("30d", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01T12:00:00+02:00", datetime(2026, 1, 1, 10, tzinfo=UTC)),
    ],
)
def test_a_moment_is_read_as_people_write_it(text: str, moment: datetime) -> None:
    assert parse_moment(text, now=NOW, option="--since") == moment


@pytest.mark.parametrize("text", ["", "soon", "2 h", "2w", "999999999d", "+999999999d", "２h"])
def test_what_is_no_moment_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--since .* is no time"):
        parse_moment(text, now=NOW, option="--since")


def test_an_operator_has_a_name_and_a_host() -> None:
    user, _, host = operator_name().partition("@")

    assert user
    assert host
