"""Faults in what stands before Django and reads what a stranger sends."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

PARSERS: Final = "dpp_project/http/parsers.py"

SUBMISSION: Final = "runs/submit/submission.py"

HOST: Final = "dpp_project/api_server/host.py"
FAIR_THREADS: Final = "dpp_project/api_server/fair_threads.py"
CONNECTIONS: Final = "dpp_project/api_server/connections.py"
CLIENT_ADDRESS: Final = "dpp_project/http/client_address.py"

strangers = In("integration/platform/test_api_server_strangers")
addresses = In("unit/test_client_address")
fair_threads = In("unit/test_fair_threads")
labels = In("integration/platform/test_metrics_labels")
health = In("integration/platform/test_health_and_pages")
statements = In("integration/budget/test_statement_stream")
metering = In("integration/runs/test_submit_metering")
json_memory = In("unit/test_json_memory")
strict_json = In("unit/test_strict_json")

MUTANTS: Final = (
    Mutant(
        "a client behind a proxy names itself by another spelling",
        "dpp_project/api_server/wsgi_environ.py",
        '        if b"_" in raw_name:\n            continue\n',
        "",
        strangers("test_hrd_10_a_client_behind_a_proxy_of_ours_names_itself_by_no_spelling"),
    ),
    Mutant(
        "a valid key asks for pages as often as it likes",
        HOST,
        ' or self._strangers.take(environ["REMOTE_ADDR"])\n',
        "\n",
        strangers("test_hrd_12_a_valid_key_pays_by_address_where_nothing_meters_its_tenant[/v1/nothing]"),
    ),
    Mutant(
        "whether the process lives is said as often as anybody asks",
        HOST,
        '                if self._probes.take(environ["REMOTE_ADDR"]):\n',
        '                if self._probes.take(environ["REMOTE_ADDR"]) < 0:\n',
        strangers("test_hrd_10_who_asks_without_end_whether_the_process_lives_waits_for_it"),
    ),
    Mutant(
        "a body may be nothing but structure",
        PARSERS,
        "    _check_size_in_memory(body)\n",
        "",
        json_memory("test_hrd_09_what_is_little_but_structure_is_refused_before_anything_is_made_of_it"),
    ),
    Mutant(
        "punctuation inside of a text counts as structure",
        PARSERS,
        "_estimated_json_memory(body) > most and sum(map(_estimated_json_memory, _without_strings(body))) > most",
        "_estimated_json_memory(body) > most",
        json_memory("test_hrd_09_punctuation_inside_of_texts_is_no_structure"),
    ),
    Mutant(
        "a surrogate's escape is taken for storable",
        PARSERS,
        'rb"\\\\u(?:0000|[dD][89a-fA-F])"',
        'rb"\\\\u(?:0000)"',
        strict_json("test_text_that_cannot_be_stored_is_refused_by_field"),
    ),
    Mutant(
        "a submit's body is read before it is paid for",
        SUBMISSION,
        "        entry.passed(found.entry, found.money)\n        asked = read()\n",
        "        asked = read()\n        entry.passed(found.entry, found.money)\n",
        metering("test_hrd_12_a_wrong_body_costs_a_token_and_without_one_is_not_parsed"),
    ),
    Mutant(
        "a stranger's valid key has paid",
        HOST,
        "                if has_paid:\n",
        "                if not has_paid:\n",
        strangers("test_hrd_12_a_valid_key_that_is_new_here_pays_nothing"),
    ),
    Mutant(
        "a client writes its own address to the left of the proxy's",
        CLIENT_ADDRESS,
        'reversed(forwarded_for.split(","))',
        'forwarded_for.split(",")',
        addresses("test_hrd_10_a_header_counts_as_far_as_our_proxies_wrote_it"),
    ),
    Mutant(
        "any connection may name another address",
        CLIENT_ADDRESS,
        "if not self._trusted or not self.is_proxy(peer):",
        "if not self._trusted:",
        addresses("test_hrd_10_a_header_counts_as_far_as_our_proxies_wrote_it"),
    ),
    Mutant(
        "one source may have every thread",
        FAIR_THREADS,
        "max(1, count * 2 // 3)",
        "count",
        fair_threads("test_hrd_12_one_source_never_has_all_threads"),
    ),
    Mutant(
        "a source that waits is served before those that came since",
        FAIR_THREADS,
        "        self._ready.append(lane)\n",
        "        self._ready.appendleft(lane)\n",
        fair_threads("test_hrd_12_a_new_source_waits_for_few_of_each_other"),
    ),
    Mutant(
        "an answer may wait for its client for ever",
        CONNECTIONS,
        "            if now - since < self._limits.window_seconds:\n",
        "            if now - since >= 0:\n",
        strangers("test_hrd_10_an_answer_that_its_client_does_not_take_ends_its_connection"),
    ),
    Mutant(
        "the connections of our own proxy are too many",
        CONNECTIONS,
        "if surplus > 0 and not self._is_exempt(held[0].peer[0]):",
        "if surplus > 0:",
        strangers("test_hrd_10_connections_of_one_address_are_bounded_and_the_silent_ones_go"),
    ),
    Mutant(
        "an invented method is a label",
        "dpp_project/http/metrics.py",
        'return method if method in KNOWN_METHODS else "other"',
        'return method or "other"',
        labels("test_hrd_11_a_flood_of_inventions_makes_no_series"),
    ),
    Mutant(
        "a proxy on this machine opens the metrics to the world",
        "dpp_project/pages/metrics_page.py",
        "return not is_forwarded and is_loopback(",
        "return is_loopback(",
        health("test_hrd_11_without_a_token_metrics_answer_this_machine_alone"),
    ),
    Mutant(
        "a tenant reads many statements at once",
        "dpp_project/http/streams.py",
        "if tenant_id in _tenants or len(_tenants) >= MOST_AT_ONCE:",
        "if len(_tenants) >= MOST_AT_ONCE:",
        statements("test_hrd_12_a_tenant_reads_one_statement_at_a_time"),
    ),
    Mutant(
        "a statement that was cut looks whole",
        "dpp_project/api_server/django_threads.py",
        'too slowly", status=head.status, sent_bytes=self._sent_bytes)\n            self._cut()\n',
        'too slowly", status=head.status, sent_bytes=self._sent_bytes)\n',
        statements("test_hrd_12_a_slow_reader_gives_its_thread_back_after_its_time"),
    ),
)
