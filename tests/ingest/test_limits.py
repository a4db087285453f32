"""How much a receiver takes on."""

from __future__ import annotations

import pytest

from ingest.limits import InFlight
from schemas.errors import Overloaded


def test_requests_above_the_limit_are_told_to_come_again() -> None:
    in_flight = InFlight(1)

    with in_flight, pytest.raises(Overloaded), in_flight:
        pass

    with in_flight:
        pass


def test_a_request_that_fails_frees_its_place() -> None:
    in_flight = InFlight(1)

    with pytest.raises(ValueError), in_flight:
        raise ValueError

    with in_flight:
        pass
