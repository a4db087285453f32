from __future__ import annotations

import pytest

from infra.running.pulse import FORGIVES_FOR_S, Pulse


@pytest.mark.parametrize(
    ("beats", "now_s", "forgives_for_s"),
    [
        pytest.param([], 100.0, 0.0, id="never began"),
        pytest.param([0.0, 0.1, 0.9], 0.9, 0.0, id="busy"),
        pytest.param([0.0, 6.0], 6.0, FORGIVES_FOR_S, id="held up"),
        pytest.param([0.0, 6.0, 6.1, 6.5], 6.5, FORGIVES_FOR_S - 0.5, id="held up a moment ago"),
        pytest.param([0.0, 6.0, 6.5, 7.0, 7.5, 8.0], 8.0, 0.0, id="held up long ago"),
    ],
)
def test_clients_are_forgiven_for_a_while_after_a_hold_up(beats: list[float], now_s: float, forgives_for_s: float) -> None:
    pulse = Pulse()

    for beat_at_s in beats:
        pulse.beat(beat_at_s)

    assert pulse.forgives_for_s(now_s) == forgives_for_s
