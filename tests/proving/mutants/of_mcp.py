"""Faults in what agents buy: the key that is derived for them, the tools, the bridge."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

DERIVED: Final = "runs/submit/derived_key.py"
VIEWS: Final = "runs/mcp/views.py"
TOOLS: Final = "runs/mcp/tools.py"
BRIDGE: Final = "runs/mcp/bridge.py"
GENERATION: Final = "{generation if is_young else min(generation + 1, _LAST_GENERATION)}"

derived = In("integration/runs/test_submit_derived_key")
tools = In("integration/mcp/test_mcp_tools")
agents = In("integration/mcp/test_mcp_agents")

MUTANTS: Final = (
    Mutant(
        "each repetition without a key is another purchase",
        DERIVED,
        GENERATION,
        "{generation + 1}",
        derived("test_dpp_82_a_retry_without_a_key_pays_once_and_says_how_to_buy_a_second"),
    ),
    Mutant(
        "what was once bought without a key is never bought again",
        DERIVED,
        GENERATION,
        "{generation}",
        derived("test_dpp_82_ten_minutes_later_it_is_another_purchase"),
    ),
    Mutant(
        "the newest purchase without a key is the one of the latest date",
        DERIVED,
        " ORDER BY 1 DESC\n",
        " ORDER BY created_at DESC\n",
        derived("test_dpp_82_a_clock_that_was_set_back_replays_and_never_sells_a_retry_twice"),
    ),
    Mutant(
        "a submit without a key is not metered before its statement",
        "runs/submit/submission.py",
        "    entry.take()\n    asked = read()\n",
        "    asked = read()\n",
        derived("test_dpp_82_beyond_the_rate_no_statement_is_spent"),
    ),
    Mutant(
        "an agent buys above the line without a person",
        VIEWS,
        "    if price <= limit or arguments.confirm",
        "    if price > 0 or arguments.confirm",
        tools("test_dpp_82_above_the_line_a_person_must_agree"),
    ),
    Mutant(
        "a page of another origin may ask",
        VIEWS,
        "    if not validate_host(name, settings.ALLOWED_HOSTS):\n",
        "    if False:\n",
        tools("test_dpp_82_only_our_hosts_are_served[headers1-403]"),
    ),
    Mutant(
        "a refused argument costs nothing of the rate",
        VIEWS,
        "        try:\n            self._take(request)\n        except Problem as beyond_the_rate:\n",
        "        try:\n            pass\n        except Problem as beyond_the_rate:\n",
        tools("test_dpp_82_each_message_takes_one_token_of_its_bucket"),
    ),
    Mutant(
        "an unknown argument is passed over",
        TOOLS,
        '    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)\n',
        '    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)\n',
        tools("test_dpp_70_a_wrong_argument_is_named_as_its_caller_knows_it[colour]"),
    ),
    Mutant(
        "a price of more than four decimals is rounded",
        TOOLS,
        "if isinstance(exponent, int) and exponent < -_DECIMALS:",
        "if False:",
        tools("test_dpp_82_a_price_is_the_number_as_it_was_written[0.30000000000000004-None]"),
    ),
    Mutant(
        "the client's name for its call comes before the agent's key",
        TOOLS,
        "    if arguments.idempotency_key is not None:\n",
        "    if arguments.idempotency_key is not None and not asked.tool_use_id:\n",
        tools(
            "test_dpp_82_a_client_that_repeats_a_call_by_itself_names_it"
            "[toolu_01A09q90qw90lq917835lq9-toolu_01A09q90qw90lq917835lq9]"
        ),
    ),
    Mutant(
        "a large result stands inline",
        TOOLS,
        "INLINE_BYTES_MAX: Final = 8_192\n",
        "INLINE_BYTES_MAX: Final = 8_193\n",
        tools("test_dpp_82_a_result_stands_inline_up_to_eight_kilobytes"),
    ),
    Mutant(
        "the bridge uploads a file again, and a retry is another purchase",
        BRIDGE,
        "            if known not in self._keys:\n",
        "            if True:\n",
        agents("test_dpp_82_the_bridge_uploads_a_local_file_once_and_the_retry_pays_once"),
    ),
)
