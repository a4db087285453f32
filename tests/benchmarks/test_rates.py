from __future__ import annotations

import pytest

from tests.benchmarks.rates import CannotMeasure, Figure, Observation, best_of, events_per_second, p99, pairwise_ratios


def test_the_rate_counts_from_the_first_look_to_the_last() -> None:
    assert events_per_second(Observation(10.0, 100), Observation(12.0, 500)) == 200


@pytest.mark.parametrize("last", [Observation(10.0, 200), Observation(11.0, 100)])
def test_a_run_that_was_over_at_the_first_look_cannot_be_measured(last: Observation) -> None:
    with pytest.raises(CannotMeasure, match="measure more"):
        events_per_second(Observation(10.0, 100), last)


def test_a_figure_is_the_median_with_the_least_and_the_most() -> None:
    figure = Figure((3.0, 100.0, 1.0))

    assert (figure.median, figure.spread) == (3.0, (1.0, 100.0))


def test_the_best_is_the_one_with_the_highest_median() -> None:
    steady, lucky_once = Figure((5.0, 5.0, 5.0)), Figure((1.0, 1.0, 99.0))

    assert best_of([lucky_once, steady]) is steady


def test_ratios_are_taken_within_a_repetition() -> None:
    assert pairwise_ratios(Figure((10.0, 30.0)), Figure((5.0, 10.0))).samples == (2.0, 3.0)


def test_99_of_100_samples_are_at_most_the_99th_percentile() -> None:
    assert p99([float(number) for number in range(1000, -1, -1)]) == 990
    assert p99([1.0] * 985 + [70.0] * 15) == 70
    assert p99([1.0] * 995 + [70.0] * 5) == 1


def test_one_sample_has_no_percentile() -> None:
    with pytest.raises(CannotMeasure, match="measure more"):
        p99([1.0])
