"""Faults in the way of an event: outbox, publisher, consumers' ledger, dead letters, resend."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

PUBLISHER: Final = "dpp_project/outbox/publisher.py"
CONSUMER: Final = "dpp_project/outbox/consumer.py"
POSTGRES: Final = "dpp_project/stores/postgres.py"
LEDGER: Final = "dpp_project/outbox/ledger.py"
RESENDING: Final = "dpp_project/outbox/resending.py"
WRITING: Final = "dpp_project/outbox/writing.py"
LETTERS: Final = "dpp_project/outbox/letters.py"

policy = In("unit/test_outbox_policy")
publisher = In("integration/outbox/test_outbox_publisher")
consumer = In("integration/outbox/test_outbox_consumer")
recovery = In("integration/outbox/test_outbox_recovery")
writing = In("integration/outbox/test_outbox_writing")
snapshots = In("integration/outbox/test_outbox_snapshots")

MUTANTS: Final = (
    Mutant(
        "a claim that was taken over is published all the same",
        PUBLISHER,
        "coalesce(published_at, now()))\nWHERE outbox_id = ANY(%s) AND processing_owner = %s\n",
        "coalesce(published_at, now()))\nWHERE outbox_id = ANY(%s) AND %s::uuid IS NOT NULL\n",
        publisher("test_aut_05_a_claim_that_was_taken_over_finalizes_nothing"),
    ),
    Mutant(
        "the end of a claim is looked for among the dead entries of the claimed",
        PUBLISHER,
        "coalesce(published_at, now()))\nWHERE outbox_id = ANY(%s) AND processing_owner = %s\n",
        "coalesce(published_at, now()))\n"
        "WHERE outbox_id = ANY(%s) AND processing_owner = %s AND status = 'PROCESSING'\n",
        snapshots("test_aut_05_claims_are_flat_while_a_snapshot_is_held"),
    ),
    Mutant(
        "the queue away counts as an attempt",
        PUBLISHER,
        "                claim.queue_is_away = error\n",
        "                claim.queue_is_away = error\n"
        "                claim.failed.extend((row, error) for row in some)\n",
        publisher("test_aut_05_the_queue_away_counts_no_attempt_and_hands_everything_back"),
    ),
    Mutant(
        "a Postgres that was away is asked again as late as a queue",
        "dpp_project/outbox/pauses.py",
        "postgres.AWAY_PAUSE_MAX_SECONDS if postgres.is_away(error) else MAX_SECONDS",
        "MAX_SECONDS",
        policy("test_a_postgres_that_is_away_is_asked_again_within_five_seconds_however_long_it_was"),
    ),
    Mutant(
        "every failed entry is dead at once",
        PUBLISHER,
        "retry = None if isinstance(error, ContentRefused) else",
        "retry = None if isinstance(error, SendFailed) else",
        publisher("test_aut_08_another_failed_entry_is_retried_six_times_and_then_dead"),
    ),
    Mutant(
        "an effect is committed whoever holds the lease",
        LEDGER,
        "_MINE: Final = \"outbox_id = %s AND lease_owner = %s AND status = 'PROCESSING'\"",
        "_MINE: Final = \"outbox_id = %s AND %s::uuid IS NOT NULL AND status <> 'DEAD'\"",
        consumer("test_aut_06_a_lease_that_is_over_is_taken_and_the_first_consumer_rolls_back"),
    ),
    Mutant(
        "a retry is claimed before its time",
        LEDGER,
        "    OR status = 'RETRY_WAIT' AND next_retry_at <= now()\n",
        "    OR status = 'RETRY_WAIT'\n",
        consumer("test_aut_08_a_failure_is_retried_on_the_ladder_by_the_rows_time_alone"),
    ),
    Mutant(
        "a consumer that lost its claim deletes the message of a retry",
        LEDGER,
        'return self.status in {"DONE", "DEAD"}',
        'return self.status in {"DONE", "DEAD", "RETRY_WAIT"}',
        consumer("test_aut_06_a_loser_deletes_the_message_for_done_and_dead_alone"),
    ),
    Mutant(
        "a database that goes counts as an attempt",
        POSTGRES,
        "return isinstance(error, DATABASE_AWAY) and (state is None or state.startswith(_CONNECTION_LOST))",
        "return isinstance(error, DATABASE_AWAY) and state is None",
        consumer("test_aut_06_a_database_that_goes_counts_no_attempt"),
    ),
    Mutant(
        "a backlog is sent again at each pass",
        RESENDING,
        "WHERE status = 'PUBLISHED' AND handled_at IS NULL AND resend_at <= now()\n    ORDER BY",
        "WHERE status = 'PUBLISHED' AND handled_at IS NULL\n    ORDER BY",
        recovery("test_aut_06_a_backlog_of_a_quarter_of_an_hour_is_sent_again_once_and_not_each_pass"),
    ),
    Mutant(
        "the same key with another tenant is the same event",
        WRITING,
        "kept.aggregate_id, kept.tenant_id) IS DISTINCT FROM",
        "kept.aggregate_id, excluded.tenant_id) IS DISTINCT FROM",
        writing("test_aut_05_the_same_key_with_another_content_raises"),
    ),
    Mutant(
        "a letter's ledger row ends whoever holds the lease",
        LETTERS,
        "            raise LeaseLost\n    if is_new",
        "            pass\n    if is_new",
        consumer("test_aut_07_a_lease_lost_before_the_letter_leaves_none"),
    ),
)
