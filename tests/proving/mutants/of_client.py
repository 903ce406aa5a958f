"""Faults in the Python client: what it repeats and with which key, what it believes, and to whom it shows its own."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

EXCHANGE: Final = "clients/python/dpp/exchange.py"
OPERATIONS: Final = "clients/python/dpp/operations.py"
STREAMS: Final = "clients/python/dpp/streams.py"
TRANSPORT: Final = "clients/python/dpp/transport.py"
WEBHOOKS: Final = "clients/python/dpp/webhooks.py"

plans = In("unit/test_client_plans")
webhooks = In("unit/test_client_webhooks")
client = In("acceptance/test_client")

MUTANTS: Final = (
    Mutant(
        "the client sends another key than it tells its caller",
        OPERATIONS,
        '{"Idempotency-Key": asked.key,',
        '{"Idempotency-Key": new_key(),',
        client("test_dpp_83_a_connection_that_breaks_after_the_request_was_sent_pays_once"),
    ),
    Mutant(
        "the client takes its own first try for a refusal",
        EXCHANGE,
        " and error.reason_code != IN_PROGRESS:",
        ":",
        plans("test_dpp_83_a_key_that_is_being_handled_is_asked_again"),
    ),
    Mutant(
        "the client does not wait as long as it was asked to",
        EXCHANGE,
        "return error.retry_after + exchange_backoff(0)",
        "return exchange_backoff(0)",
        plans("test_dpp_83_retry_after_is_kept_to"),
    ),
    Mutant(
        "the client repeats what was refused for good",
        EXCHANGE,
        "frozenset({429, 502,",
        "frozenset({422, 429, 502,",
        plans("test_dpp_83_nothing_else_is_asked_again"),
    ),
    Mutant(
        "half an event is put before the next connection's",
        STREAMS,
        'self._rest, self._lines = b"", []',
        "self._lines = []",
        client("test_dpp_83_a_stream_cut_at_any_byte_loses_and_repeats_nothing"),
    ),
    Mutant(
        "a cancel whose answer was lost is told as refused",
        OPERATIONS,
        "if not error.repeated:",
        "if error.status:",
        client("test_dpp_83_a_run_is_canceled_even_if_the_answer_is_lost"),
    ),
    Mutant(
        "a download is not checked",
        OPERATIONS,
        "if sha256 is not None and hashlib.sha256(answer.body).hexdigest() != sha256:",
        "if sha256 is None:",
        plans("test_dpp_83_what_has_another_hash_is_no_result"),
    ),
    Mutant(
        "the bucket is shown the key",
        TRANSPORT,
        'headers["Authorization"] = f"Bearer {self._key}"',
        'pass\n        headers["Authorization"] = f"Bearer {self._key}"',
        plans("test_dpp_83_the_key_goes_to_the_api_alone"),
    ),
    Mutant(
        "a secret of nothing verifies a webhook",
        WEBHOOKS,
        "if not key:",
        "if key is None:",
        webhooks("test_dpp_83_no_secret_verifies_nothing"),
    ),
    Mutant(
        "a webhook that was recorded is good for ever",
        WEBHOOKS,
        "if abs((time.time() if now is None else now) - int(at)) > tolerance_seconds:",
        "if int(at) - (time.time() if now is None else now) > tolerance_seconds:",
        webhooks("test_dpp_83_what_was_signed_at_another_time_is_refused"),
    ),
)
