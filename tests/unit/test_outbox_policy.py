"""One policy of retries for publisher and consumers."""

import pytest
from django.db import OperationalError

from dpp_project.aws.sqs_sender import SendFailed
from dpp_project.outbox.pauses import Pauses
from dpp_project.outbox.policy import POLICY, Retry, RetryPolicy

pytestmark = pytest.mark.contract("AUT-08")


def test_aut_08_six_retries_on_the_ladder_and_then_it_is_given_up() -> None:
    assert [POLICY.after_failure(count) for count in range(8)] == [
        Retry(1, 10),
        Retry(2, 60),
        Retry(3, 600),
        Retry(4, 600),
        Retry(5, 600),
        Retry(6, 600),
        None,
        None,
    ]


def test_aut_08_without_retries_the_first_failure_is_the_last() -> None:
    assert RetryPolicy(max_retries=0, delays_seconds=(1,)).after_failure(0) is None


def test_aut_05_pauses_double_from_a_quarter_to_thirty_seconds_and_begin_anew() -> None:
    pauses, queue_is_away = Pauses(), SendFailed("the queue is away")
    assert [pauses.next_seconds(queue_is_away) for _ in range(9)] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    pauses.over()
    assert pauses.next_seconds(queue_is_away) == 0.25


def test_a_postgres_that_is_away_is_asked_again_within_five_seconds_however_long_it_was() -> None:
    pauses, database_is_away = Pauses(), OperationalError("the database is away")
    assert [pauses.next_seconds(database_is_away) for _ in range(7)] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
