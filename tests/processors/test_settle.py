from __future__ import annotations

from infra.streams.settle import Ack, GiveUp, RetryLater
from processors.retry import RetryPolicy
from processors.settle import FIRST_TRACEBACK_CHARACTERS, TRACEBACK_CHARACTERS, after_attempt
from schemas.outcome import Ran


def raised(text: str) -> ValueError:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def decided(error: BaseException | None, *, attempt: int) -> object:
    return after_attempt(error, ran=Ran("id", "index", attempt, 0, 1.0), policy=RetryPolicy(max_attempts=2), now_ms=1)


def test_a_retry_says_what_failed_so_that_a_later_letter_can_tell_how_it_began() -> None:
    retry = decided(raised("no"), attempt=1)

    assert isinstance(retry, RetryLater)
    assert (retry.delay_ms, retry.retry_count, retry.error) == (0, 1, "ValueError: no")
    assert retry.traceback.startswith("Traceback")
    assert retry.traceback.endswith("ValueError: no\n")
    assert decided(None, attempt=1) == Ack(Ran("id", "index", 1, 0, 1.0))


def test_what_is_kept_of_an_error_is_bounded_and_is_its_end() -> None:
    long = raised("x" * 20_000 + "the end")

    retry, letter = decided(long, attempt=1), decided(long, attempt=2)

    assert isinstance(retry, RetryLater)
    assert isinstance(letter, GiveUp)
    assert (len(retry.traceback), len(letter.traceback)) == (FIRST_TRACEBACK_CHARACTERS, TRACEBACK_CHARACTERS)
    assert retry.error.endswith("the end")
    assert letter.traceback.endswith("the end\n")
