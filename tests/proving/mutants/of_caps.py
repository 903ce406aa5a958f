"""Faults in the caps: what is counted where, and what a hold may pass."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

scripts = In("contract/test_caps_scripts")

AGAIN: Final = scripts("test_what_is_asked_again_is_counted_once")
MIDNIGHT: Final = scripts("test_what_was_held_before_midnight_moves_its_own_windows_only")


def script(name: str) -> str:
    return f"budget/redis/lua/{name}.lua"


MUTANTS: Final = (
    # Reserve.
    Mutant(
        "caps: a hold ignores the least revision its caller knows",
        script("reserve"),
        "known > 0 and (not scope or scope.revision < known) then",
        "known > 0 and not scope then",
        scripts("test_a_scope_older_than_its_caller_knows_holds_nothing"),
    ),
    Mutant(
        "caps: a scope that is absent counts as one at zero",
        script("reserve"),
        "known > 0 and (not scope or scope.revision < known) then",
        "known > 0 and scope and scope.revision < known then",
        scripts("test_an_absent_scope_is_lost_for_who_knows_of_its_caps"),
    ),
    Mutant(
        "caps: a scope that is cut holds nothing back",
        script("reserve"),
        "scope == false or known > 0",
        "false or known > 0",
        scripts("test_a_scope_that_is_cut_is_lost_and_never_zero"),
    ),
    Mutant(
        "caps: a hold of an earlier date is taken",
        script("reserve"),
        "      if newest ~= date then return {'ERR_DATE', newest} end\n",
        "",
        scripts("test_a_date_before_the_scopes_own_opens_no_window_again"),
    ),
    Mutant(
        "caps: a later date leaves the windows before it standing",
        script("reserve"),
        "        if scope then begin_windows(scope, date) end\n",
        "",
        scripts("test_a_later_date_ends_the_windows_it_does_not_lie_in"),
    ),
    Mutant(
        "caps: a window that has begun keeps what the one before had used",
        script("reserve"),
        ", 'used', table.concat(scope.used, ' '))",
        ")",
        scripts("test_a_later_date_ends_the_windows_it_does_not_lie_in"),
    ),
    Mutant(
        "caps: the key's caps are asked before the tenant's",
        script("reserve"),
        "      for at = 1, 2 do\n        local scope = scopes[at]\n",
        "      for at = 2, 1, -1 do\n        local scope = scopes[at]\n",
        scripts("test_the_first_of_several_refusals_is_told"),
    ),
    Mutant(
        "caps: the shortest window is told first",
        script("reserve"),
        "for period = 4, 1, -1 do",
        "for period = 1, 4 do",
        scripts("test_the_first_of_several_refusals_is_told"),
    ),
    Mutant(
        "caps: a hold may pass its cap by one micro",
        script("reserve"),
        "- tonumber(scope.counted[period]) < micros then",
        "- tonumber(scope.counted[period]) + 1 < micros then",
        scripts("test_the_last_micro_can_be_held_and_not_one_more"),
    ),
    Mutant(
        "caps: caps count what was used and not what is held",
        script("reserve"),
        "- tonumber(scope.counted[period]) < micros then",
        "- tonumber(scope.used[period]) < micros then",
        scripts("test_the_last_micro_can_be_held_and_not_one_more"),
    ),
    # Where a hold is plain.
    Mutant(
        "caps: a plain hold may pass its cap by one micro",
        script("plain_hold"),
        "(tonumber(most_week) or 0) >= week)",
        "(tonumber(most_week) or 0) + 1 >= week)",
        scripts("test_the_last_micro_can_be_held_and_not_one_more"),
    ),
    Mutant(
        "caps: a plain hold ignores the least revision its caller knows",
        script("plain_hold"),
        " and tonumber(revision) >= known\n",
        "\n",
        scripts("test_a_scope_older_than_its_caller_knows_holds_nothing"),
    ),
    Mutant(
        "caps: a plain hold counts for the tenant where the key refuses",
        script("plain_hold"),
        "seen[5] or seen.err) then is_plain = false end",
        "seen[5] or seen.err) then is_plain = at ~= 8 end",
        scripts("test_a_refusal_of_the_key_counts_nothing_for_the_tenant"),
    ),
    Mutant(
        "caps: a scope that is absent is plain where its caps are known",
        script("plain_hold"),
        "(known > 0 or revision or last",
        "(revision or last",
        scripts("test_an_absent_scope_is_lost_for_who_knows_of_its_caps"),
    ),
    Mutant(
        "caps: a hold that knows of caps names no scope of theirs",
        script("plain_hold"),
        " and (KEYS[9] or known_of_one == 0)\n",
        "\n",
        scripts("test_a_hold_that_knows_of_caps_names_their_scope"),
    ),
    Mutant(
        "caps: a plain hold is of any date",
        script("plain_hold"),
        "if revision and last == date and",
        "if revision and last and",
        scripts("test_a_date_before_the_scopes_own_opens_no_window_again"),
    ),
    Mutant(
        "caps: a plain hold past 2^53 is rounded",
        script("plain_hold"),
        "      and #day < 16 and #week < 16 and #month < 16 and #total < 16\n",
        "",
        scripts("test_counting_is_exact_to_the_limit_and_past_it"),
    ),
    Mutant(
        "caps: a limit that is none holds nothing back",
        script("plain_hold"),
        "(most_week == '-' or (tonumber(most_week) or 0)",
        "(most_week == '-' or (tonumber(most_week) or 1e300)",
        scripts("test_a_scope_that_is_cut_is_lost_and_never_zero"),
    ),
    # Settle, refund and credit.
    Mutant(
        "caps: a plain end moves windows of another date",
        script("plain_move"),
        "if seen[1] == date and total",
        "if total",
        MIDNIGHT,
    ),
    Mutant(
        "caps: a plain end past 2^53 is rounded",
        script("plain_move"),
        "    and #day < 16 and #week < 16 and #month < 16 and #total < 16\n",
        "",
        scripts("test_counting_is_exact_to_the_limit_and_past_it"),
    ),
    Mutant(
        "caps: what a plain end charges is not used",
        script("plain_move"),
        "used_month + its, used_total + its)",
        "used_month + its, used_total)",
        scripts("test_a_hold_and_its_end_are_counted_in_both_scopes"),
    ),
    Mutant(
        "caps: a settle that is asked again counts again",
        script("settle"),
        "  return {'OK', charged, refunded, left_then, 'again'}\n",
        "-- include counters.lua\n  move(KEYS[9], date, -tonumber(refunded), tonumber(charged))\n"
        "  return {'OK', charged, refunded, left_then, 'again'}\n",
        AGAIN,
    ),
    Mutant(
        "caps: a refund that is asked again counts again",
        script("refund_full"),
        "  return {'OK', refunded, left_then, charged, 'again'}\n",
        "-- include counters.lua\n  move(KEYS[9], date, -tonumber(refunded), 0)\n"
        "  return {'OK', refunded, left_then, charged, 'again'}\n",
        AGAIN,
    ),
    Mutant(
        "caps: a credit that is asked again counts again",
        script("credit"),
        "  return {'OK', left_then, 'again'}\n",
        "-- include counters.lua\n  move(KEYS[7], date, -tonumber(amount), -tonumber(amount))\n"
        "  return {'OK', left_then, 'again'}\n",
        AGAIN,
    ),
    Mutant(
        "caps: what a credit gives back of a charge stays used",
        script("credit"),
        "first, more_counted, more_used = 7, -tonumber(amount), -tonumber(amount)",
        "first, more_counted, more_used = 7, -tonumber(amount), 0",
        MIDNIGHT,
    ),
    Mutant(
        "caps: what a run did not use goes to a window of another date",
        script("counters"),
        "  if last ~= date then\n",
        "  if false then\n",
        MIDNIGHT,
    ),
    Mutant(
        "caps: a week begins anew with its month",
        script("counters"),
        "string.sub(one, 9, 16) == string.sub(other, 9, 16)",
        "string.sub(one, 1, 6) == string.sub(other, 1, 6)",
        scripts("test_a_later_date_ends_the_windows_it_does_not_lie_in"),
    ),
    Mutant(
        "caps: a counter past 2^53 is rounded",
        script("counters"),
        "  if most < 16 and total < 8e15 and total > -8e15 then\n",
        "  if true then\n",
        scripts("test_counting_is_exact_to_the_limit_and_past_it"),
    ),
    Mutant(
        "caps: a scope without one of its counters stands",
        script("counters"),
        "  if not limits or not counted or not used then return false end\n",
        "  used = used or {'0', '0', '0', '0'}\n",
        scripts("test_a_scope_that_is_cut_is_lost_and_never_zero"),
    ),
    # Limits.
    Mutant(
        "caps: limits of a scope that is lost begin at nothing",
        script("caps"),
        "if not scope and mode == 'known' then return {'ERR_ABSENT'} end\n",
        "",
        scripts("test_limits_of_a_scope_that_does_not_stand_are_refused"),
    ),
    Mutant(
        "caps: an older change of limits comes after a newer one",
        script("caps"),
        "if scope and scope.revision >= tonumber(revision) then\n",
        "if false then\n",
        scripts("test_a_change_is_in_force_at_once_and_touches_no_counter"),
    ),
    Mutant(
        "caps: limits change while the tenant is being rebuilt",
        script("caps"),
        "if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end\n",
        "",
        scripts("test_no_limit_changes_behind_a_closed_gate"),
    ),
    Mutant(
        "caps: a change of limits begins a scope that stands anew",
        script("caps"),
        "if not scope then\n  redis.call('DEL'",
        "if true then\n  redis.call('DEL'",
        scripts("test_a_change_is_in_force_at_once_and_touches_no_counter"),
    ),
    # Rebuild.
    Mutant(
        "caps: a rebuild leaves a scope that no longer has caps",
        script("rebuild"),
        "  redis.call('DEL', key, other)\n",
        "  if kind ~= 'caps' then redis.call('DEL', key, other) end\n",
        scripts("test_a_rebuild_writes_a_scope_whole_or_drops_it"),
    ),
    Mutant(
        "caps: a rebuild writes a scope that is none",
        script("rebuild"),
        "  if not each or not four_in(counted) or not four_in(used) then return nil end\n",
        "  if not each then return nil end\n",
        scripts("test_a_rebuild_refuses_a_wrong_scope_whole"),
    ),
)
