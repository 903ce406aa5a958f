"""Faults at the edge of caps: who sets them, when they are called enforced, what keys may, and what is shown."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

SETTING: Final = "budget/caps/setting.py"
KEYS: Final = "budget/caps/tenant_keys.py"
READING: Final = "budget/caps/reading.py"
ROWS: Final = "budget/caps/rows.py"
WHO: Final = "budget/caps/who.py"

setting = In("integration/budget/test_caps_setting")
api = In("integration/budget/test_caps_api")
attacks = In("integration/budget/test_caps_attacks")
console = In("integration/budget/test_caps_console")
zones = In("integration/tenants/test_tenants_services")

ENDED: Final = attacks("test_a_key_that_ended_since_it_was_looked_up_widens_nothing")

MUTANTS: Final = (
    Mutant(
        "two changes of caps read one revision",
        SETTING,
        "    if not Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).exists():",
        "    if not Tenant.objects.filter(tenant_id=tenant_id).exists():",
        setting("test_a_change_waits_for_the_one_before_it"),
    ),
    Mutant(
        "the same caps again are another revision",
        SETTING,
        "    if after == before:",
        "    if row is None and after == before:",
        setting("test_the_same_again_changes_nothing_and_puts_in_force_what_was_not"),
    ),
    Mutant(
        "the same caps again are called enforced without a look",
        SETTING,
        "enforced = not dry_run and enforcing.put_in_force(row)",
        "enforced = not dry_run and (not changed or enforcing.put_in_force(row))",
        setting("test_the_same_again_changes_nothing_and_puts_in_force_what_was_not"),
    ),
    Mutant(
        "caps are called enforced that never came to Redis",
        "budget/caps/enforcing.py",
        "answer=repr(answer))\n    return False\n",
        "answer=repr(answer))\n    return True\n",
        setting("test_without_redis_it_stands_and_is_not_called_enforced"),
    ),
    Mutant(
        "a period that is not named loses its limit",
        SETTING,
        "after = before | dict(changes)",
        "after = dict(rows.NO_LIMITS) | dict(changes)",
        setting("test_caps_are_set_changed_and_taken_away_period_by_period"),
    ),
    Mutant(
        "new caps inherit what was told of the old",
        SETTING,
        ", changed_at=Now(), told=told",
        ", changed_at=Now()",
        setting("test_caps_are_set_changed_and_taken_away_period_by_period"),
    ),
    Mutant(
        "a change of caps leaves no line in the trail",
        SETTING,
        "    _record_caps_setting(row, before, actor=actor, reason=reason)\n",
        "",
        setting("test_the_trail_says_who_what_was_and_what_is"),
    ),
    Mutant(
        "a key sets its own caps",
        SETTING,
        "who.capped_fault(asking) or who.own_caps_fault(asking, lineage_id)",
        "who.capped_fault(asking)",
        setting("test_no_key_changes_its_own_caps_and_a_capped_one_changes_none"),
    ),
    Mutant(
        "only a key with every cap counts as capped",
        ROWS,
        "return any(limit is not None",
        "return all(limit is not None",
        setting("test_no_key_changes_its_own_caps_and_a_capped_one_changes_none"),
    ),
    Mutant(
        "a capped key changes the zone",
        SETTING,
        "        fault = who.ended_key_fault(asking) or who.capped_fault(asking)\n",
        "        fault = who.ended_key_fault(asking)\n",
        api("test_a_capped_key_changes_nothing"),
    ),
    Mutant(
        "a capped key makes keys",
        KEYS,
        "return who.capped_fault(asking) or who.standing_key(asking)",
        "return who.standing_key(asking)",
        api("test_a_capped_key_changes_nothing"),
    ),
    Mutant(
        "a key that ended makes keys",
        WHO,
        "keys = live_keys(asking.tenant_id).filter(tenant__status=Tenant.Status.ACTIVE)",
        "keys = ApiKey.objects.filter(tenant__status=Tenant.Status.ACTIVE)",
        ENDED,
    ),
    Mutant(
        "a key of a suspended tenant makes keys",
        WHO,
        "live_keys(asking.tenant_id).filter(tenant__status=Tenant.Status.ACTIVE)",
        "live_keys(asking.tenant_id)",
        ENDED,
    ),
    Mutant(
        "a key that ended takes caps away",
        SETTING,
        "fault = who.ended_key_fault(asking) or who.capped_fault(asking) or who.own_caps_fault",
        "fault = who.capped_fault(asking) or who.own_caps_fault",
        ENDED,
    ),
    Mutant(
        "a key that ended moves the zone",
        SETTING,
        "        fault = who.ended_key_fault(asking) or who.capped_fault(asking)\n",
        "        fault = who.capped_fault(asking)\n",
        ENDED,
    ),
    Mutant(
        "a key that an older release rotates begins a lineage of its own",
        "tenants/migrations/0009_one_lineage_for_rotations.py",
        "     WHERE key_id = NEW.replaced_by_id AND",
        "     WHERE key_id = NEW.key_id AND",
        In("integration/tenants/test_tenants_tables")(
            "test_a_key_that_an_older_release_rotates_counts_for_its_lineage"
        ),
    ),
    Mutant(
        "a key may end where the calendar does",
        "tenants/services.py",
        "not clock.now() < expires_at < EXPIRES_BEFORE",
        "not clock.now() < expires_at",
        attacks("test_a_key_that_nobody_could_read_back_is_not_made"),
    ),
    Mutant(
        "a key that lasts for ever cannot be rotated",
        "tenants/services.py",
        "min(old.expires_at, EXPIRES_BEFORE) - old.created_at",
        "old.expires_at - old.created_at",
        attacks("test_a_key_made_to_last_for_ever_can_be_rotated"),
    ),
    Mutant(
        "a rotated key in its grace takes no place",
        KEYS,
        "takes_a_place=grace > timedelta()",
        "takes_a_place=False",
        attacks("test_rotations_pass_no_number_of_live_keys"),
    ),
    Mutant(
        "keys that were revoked may be made without end",
        KEYS,
        "created_at__gt=clock.now() - A_DAY).count()",
        "created_at__gt=clock.now() - A_DAY, status=ApiKey.Status.ACTIVE).count()",
        attacks("test_keys_made_and_revoked_in_turns_have_an_end"),
    ),
    Mutant(
        "usage tells every key of all",
        "budget/usage/reading.py",
        "    if Scope.KEYS_WRITE in principal.scopes:\n",
        "    if Scope.BUDGET_READ in principal.scopes:\n",
        attacks("test_usage_tells_a_key_of_no_other_key"),
    ),
    Mutant(
        "FOCUS tells every key of all",
        "budget/usage/focus_rows.py",
        "until=until, own=own, metadata_key=metadata_key)",
        "until=until, metadata_key=metadata_key)",
        attacks("test_usage_tells_a_key_of_no_other_key"),
    ),
    Mutant(
        "CSV tells every key of all",
        "budget/usage/csv_rows.py",
        "until=until, own=own, metadata_key=metadata_key)",
        "until=until, metadata_key=metadata_key)",
        attacks("test_usage_tells_a_key_of_no_other_key"),
    ),
    Mutant(
        "a key makes another with keys:write",
        KEYS,
        "    if Scope.KEYS_WRITE in scopes:\n",
        "    if Scope.KEYS_WRITE in scopes and Scope.KEYS_WRITE not in maker.scopes:\n",
        api("test_a_new_key_is_never_wider_than_its_maker"),
    ),
    Mutant(
        "a key makes one with scopes that it lacks",
        KEYS,
        "    if missing:\n",
        "    if missing and not maker.scopes:\n",
        api("test_a_new_key_is_never_wider_than_its_maker"),
    ),
    Mutant(
        "a key makes one that outlives it",
        KEYS,
        "expires_at > maker.expires_at:",
        "expires_at < maker.expires_at:",
        api("test_a_new_key_is_never_wider_than_its_maker"),
    ),
    Mutant(
        "a key without an end is made by one that has an end",
        KEYS,
        "expires_at=expires_at or maker.expires_at,",
        "expires_at=expires_at,",
        api("test_a_new_key_ends_with_its_maker"),
    ),
    Mutant(
        "a rotation hands out a wider key",
        KEYS,
        "        if key.pk != maker.pk:\n",
        "        if key.pk is None:\n",
        api("test_a_rotation_gives_nobody_a_wider_or_longer_key"),
    ),
    Mutant(
        "a rotation outlives the key that asks",
        KEYS,
        "ends_by=maker.expires_at,",
        "ends_by=None,",
        api("test_a_rotation_gives_nobody_a_wider_or_longer_key"),
    ),
    Mutant(
        "another tenant's key is rotated",
        KEYS,
        "key = ApiKey.objects.filter(tenant_id=asking.tenant_id, key_id=key_id).first()",
        "key = ApiKey.objects.filter(key_id=key_id).first()",
        api("test_another_tenants_key_is_none"),
    ),
    Mutant(
        "another tenant's key is revoked",
        KEYS,
        "if not ApiKey.objects.filter(tenant_id=asking.tenant_id, key_id=key_id).exists():",
        "if not ApiKey.objects.filter(key_id=key_id).exists():",
        api("test_another_tenants_key_is_none"),
    ),
    Mutant(
        "a tenant has one live key more than it may",
        KEYS,
        "count() >= LIVE_KEYS_MAX",
        "count() > LIVE_KEYS_MAX",
        api("test_a_tenant_has_so_many_live_keys_and_no_more"),
    ),
    Mutant(
        "every key sees all keys",
        "budget/api/caps_views.py",
        "if Scope.KEYS_WRITE not in principal.scopes:",
        "if not principal.scopes:",
        api("test_each_key_tells_what_it_spent_capped_or_not"),
    ),
    Mutant(
        "a window that ended shows what it had spent",
        READING,
        'if period == "total" or cap_window(then, period) == cap_window(now, period)]',
        "if cap_window(then, period) == cap_window(now, period) or now]",
        api("test_the_budget_shows_each_window_with_a_limit"),
    ),
    Mutant(
        "limits that changed since are shown as they were",
        READING,
        "return seen is None or seen.revision < revision",
        "return seen is None",
        api("test_a_look_brings_a_change_that_never_came_to_redis"),
    ),
    Mutant(
        "what is lost in Redis is shown as no cap",
        READING,
        "    return [scope for scope, revision in stand.revisions.items() if _is_behind(seen.get(scope), revision)]",
        "    return [scope for scope, revision in stand.revisions.items() if scope in seen and not revision]",
        api("test_a_look_brings_a_change_that_never_came_to_redis"),
    ),
    Mutant(
        "a zone that Postgres does not know is taken",
        "tenants/services.py",
        " and _both_know(zone):",
        ":",
        zones("test_tenants_wrong_fields_are_named"),
    ),
    Mutant(
        "a bar shows what is held as used",
        "budget/caps_page.py",
        "return self._width(self.figures.used_micros)",
        "return self._width(self.figures.used_micros + self.figures.held_micros)",
        console("test_pages_show_what_is_used_held_and_left_and_when_it_resets"),
    ),
)
