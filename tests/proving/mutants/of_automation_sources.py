"""Faults between what happens outside and an event of it, and between a message and its place."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

GITHUB: Final = "ops/automations/sources/github.py"
JIRA: Final = "ops/automations/sources/jira.py"
DAILY: Final = "ops/automations/sources/daily.py"
LOOKS: Final = "ops/automations/sources/looks.py"
ASKING: Final = "ops/automations/sources/asking.py"
HOOKS: Final = "ops/automations/sources/hooks.py"
SIGNATURES: Final = "ops/automations/sources/signatures.py"
CREDENTIALS: Final = "ops/automations/sources/credentials.py"
SLACK: Final = "ops/automations/messages/slack.py"
SENDING: Final = "ops/automations/messages/sending.py"
STEPS: Final = "ops/automations/messages/message_steps.py"

answers = In("integration/automations/test_answers_come_in")
signatures = In("unit/test_automation_signatures")
schedule = In("unit/test_automation_schedule")
github = In("integration/automations/test_source_github")
jira = In("integration/automations/test_source_jira")
polling = In("integration/automations/test_source_polling")
hooks = In("integration/automations/test_signed_hooks")
edges = In("integration/automations/test_automation_edges")
sending = In("integration/automations/test_message_sending")

MUTANTS: Final = (
    Mutant(
        "a sweep asks for unread notifications alone",
        GITHUB,
        '    asked |= {"all": "true"} if everything else {}\n',
        "",
        github("test_lif_06_what_a_person_read_first_is_swept_all_the_same"),
    ),
    Mutant(
        "a sweep begins where the last one did",
        GITHUB,
        "OVERLAP: Final = timedelta(hours=1)",
        "OVERLAP: Final = timedelta(0)",
        github("test_lif_06_a_sweep_asks_again_for_the_hour_before_the_last_one"),
    ),
    Mutant(
        "a 304 that sticks is never swept past",
        GITHUB,
        "    return not timedelta(0) <= ago < SWEEP_EVERY",
        "    return ago < timedelta(0)",
        github("test_lif_06_a_304_that_sticks_hides_nothing_for_longer_than_a_sweep"),
    ),
    Mutant(
        "what was seen and forgotten is new",
        LOOKS,
        "        oldest=max(source.created_at, _remembered_since(now)),\n",
        "        oldest=source.created_at,\n",
        github("test_lif_05_a_notification_left_unread_is_no_event_again_once_it_is_forgotten"),
    ),
    Mutant(
        "a comment that could not be read is none",
        GITHUB,
        "        if failed.kind in _NO_COMMENT:\n",
        "        if failed.kind is not AskFailureKind.RATE_LIMITED:\n",
        github("test_lif_06_a_comment_that_fails_once_is_asked_for_again"),
    ),
    Mutant(
        "a comment is blamed for a look that ran out of time",
        GITHUB,
        "failed.kind is AskFailureKind.UNREACHABLE and seconds < ANSWER_SECONDS:\n",
        "failed.kind is AskFailureKind.UNREACHABLE and seconds < -1:\n",
        github("test_lif_06_a_look_that_runs_out_of_time_leaves_the_rest_to_the_next_one"),
    ),
    Mutant(
        "a sweep that missed a comment is whole",
        GITHUB,
        '        sweep["is_whole"] = sweep["is_whole"] and read.is_whole\n',
        "",
        github("test_lif_06_a_long_sweep_with_a_comment_missing_goes_to_its_end_and_begins_anew"),
    ),
    Mutant(
        "an old comment of ours hides who moved its thread",
        GITHUB,
        "    return abs(at - written) <= OF_THE_COMMENT\n",
        "    return True\n",
        github("test_lif_06_an_old_comment_of_ours_does_not_hide_who_moved_the_thread_since"),
    ),
    Mutant(
        "a person's wish for a look passes over X-Poll-Interval",
        "ops/automations/sources/acts.py",
        '    return max(moment_of_service(row.state["not_before"]), database_now())\n',
        "    return database_now()\n",
        github("test_lif_06_the_poll_interval_is_obeyed_whoever_asks_for_a_look"),
    ),
    Mutant(
        "a token in an address is in the audit trail",
        "ops/automations/sources/acts.py",
        "        name: registration.endpoint_origin(value) if name in _ADDRESSES and value else value\n",
        "        name: value\n",
        ("tests/integration/automations/test_source_acts.py::test_dpp_97_a_token_in_an_address_is_in_no_audit_entry",),
    ),
    Mutant(
        "a source's token goes wherever a link leads",
        ASKING,
        "        if (here.scheme, here.netloc) != (there.scheme, there.netloc):\n",
        "        if here.scheme != there.scheme:\n",
        github("test_lif_06_a_link_to_another_host_is_not_followed_with_the_token"),
    ),
    Mutant(
        "Jira's lag is not asked for again",
        JIRA,
        "LAG_MINUTES: Final = 15\n",
        "LAG_MINUTES: Final = 0\n",
        jira("test_lif_06_the_minutes_are_those_since_the_last_whole_search_and_a_quarter_of_an_hour"),
    ),
    Mutant(
        "a night without the time fires after the jump by as much",
        DAILY,
        "    found = days.first_instant(day, zone, at) or ",
        "    found = datetime.combine(day, at, tzinfo=zone) or ",
        schedule("test_lif_06_a_day_of_23_or_25_hours_has_its_schedule_once"),
    ),
    Mutant(
        "a new schedule is due for the past",
        LOOKS,
        "    if due.at >= max(since, about.oldest):\n",
        "    if due.at:\n",
        polling("test_lif_06_a_new_schedule_is_not_due_for_the_past"),
    ),
    Mutant(
        "marks are kept apart from their events",
        LOOKS,
        "    with transaction.atomic():\n        for event in looked.events:\n"
        "            counted[_kept(look.source, event)] += 1\n",
        "    for event in looked.events:\n        counted[_kept(look.source, event)] += 1\n"
        "    with transaction.atomic():\n",
        github("test_lif_05_a_death_before_the_marks_finds_the_same_again"),
    ),
    Mutant(
        "a failure is marked apart from its alarm",
        LOOKS,
        "        with transaction.atomic():  # this failure is the fifth once: a death between the two must undo it\n",
        "        if look:\n",
        jira("test_lif_06_a_death_between_a_failures_mark_and_its_alarm_loses_no_alarm"),
    ),
    Mutant(
        "our own doing starts something",
        LOOKS,
        "    if not event.is_own:\n",
        "    if event:\n",
        github("test_lif_06_our_own_comment_starts_nothing"),
    ),
    Mutant(
        "GitHub's delivery id makes a replay new",
        SIGNATURES,
        '    return Signed("sha256:" + hashlib.sha256(body).hexdigest())\n',
        '    return Signed("sha256:" + headers.get("x-github-delivery", ""))\n',
        signatures("test_lif_12_githubs_delivery_id_decides_nothing"),
    ),
    Mutant(
        "an old request of a hook is taken",
        SIGNATURES,
        "    if abs(now.timestamp() - int(timestamp)) > OLDEST_SECONDS:\n        return None\n",
        "",
        signatures("test_a_timestamp_five_minutes_away_is_refused"),
    ),
    Mutant(
        "a signed id may hold a dot",
        SIGNATURES,
        ' or "." in webhook_id',
        "",
        signatures("test_a_dot_in_the_id_would_move_the_bounds_of_what_is_signed"),
    ),
    Mutant(
        "a source without a secret takes anything that nobody's secret signs",
        HOOKS,
        "    return proven if live else None\n",
        "    return proven or Signed('unsigned')\n",
        hooks("test_lif_06_every_wrong_reason_is_one_answer_and_changes_nothing"),
    ),
    Mutant(
        "a secret that ended signs on",
        CREDENTIALS,
        "        return self.until is None or datetime.fromisoformat(self.until) > now\n",
        "        return True\n",
        hooks("test_lif_06_every_wrong_reason_is_one_answer_and_changes_nothing"),
    ),
    Mutant(
        "a source's setting may name any variable",
        CREDENTIALS,
        "    if not isinstance(name, str) or ENVIRONMENT_NAME.fullmatch(name) is None:\n",
        "    if not isinstance(name, str):\n",
        (
            "tests/integration/automations/test_source_acts.py::test_lif_06_a_setting_in_the_row_names_no_other_variable",
        ),
    ),
    Mutant(
        "an unclear post is posted again",
        SENDING,
        "        if message.unclear and (became := slack.look_up(place, message, thread=thread)) is not None:\n"
        "            return became\n",
        "",
        sending("test_lif_11_killed_between_post_and_mark_it_arrives_once"),
    ),
    Mutant(
        "a turn that asks nothing makes an unclear message clear",
        SENDING,
        "    return Unclear(why, after_seconds) if message.unclear else NotSent(why, after_seconds)\n",
        "    return NotSent(why, after_seconds)\n",
        sending("test_lif_11_what_may_have_been_posted_stays_unclear_through_a_turn_that_asks_nothing"),
    ),
    Mutant(
        "what cannot be looked up counts as absent",
        SLACK,
        '        return Unclear(f"not looked up: {unknown}")\n',
        "        return None if unknown else None\n",
        sending("test_lif_11_what_cannot_be_looked_up_is_never_repeated"),
    ),
    Mutant(
        "a 5xx of Slack's is certain",
        SLACK,
        "        return Unclear(str(status)) if status >= 500 else NotSent(str(status))\n",
        "        return NotSent(str(status))\n",
        sending("test_lif_11_an_unclear_answer_is_looked_up_before_anything_is_repeated"),
    ),
    Mutant(
        "a dead thread's reply stays at the root",
        SLACK,
        '    if not thread or posted.get("thread_ts") == thread:\n',
        "    if ts:\n",
        sending("test_lif_11_a_thread_that_is_gone_is_told_and_nothing_stays_at_the_root_unseen"),
    ),
    Mutant(
        "a sender posts behind its lease",
        SLACK,
        "    if place.seconds_left < ANSWER_SECONDS:\n",
        "    if place.seconds_left < -1_000:\n",
        sending("test_lif_11_a_post_that_could_outlive_its_lease_is_not_begun"),
    ),
    Mutant(
        "a stranger's words call a channel",
        SLACK,
        '.replace("<", "&lt;")',
        "",
        sending("test_lif_11_a_strangers_words_call_no_channel"),
    ),
    Mutant(
        "a message is tried for two days",
        SENDING,
        "GIVEN_UP_AFTER: Final = timedelta(hours=24)",
        "GIVEN_UP_AFTER: Final = timedelta(hours=48)",
        sending("test_lif_02_a_message_has_24_hours_and_its_end_is_said_to_the_platform"),
    ),
    Mutant(
        "what may have arrived is looked up for ever",
        SENDING,
        "        case NotSent(why) | Unclear(why) if left <= 0:",
        "        case NotSent(why) if left <= 0:",
        sending("test_lif_02_a_message_has_24_hours_and_its_end_is_said_to_the_platform"),
    ),
    Mutant(
        "the end of a message is said to nobody",
        SENDING,
        "        if not isinstance(outcome, ThreadGone) and message.kind",
        "        if isinstance(outcome, ThreadGone) and message.kind",
        sending("test_lif_02_a_message_has_24_hours_and_its_end_is_said_to_the_platform"),
    ),
    Mutant(
        "a message has failed before it is said",
        SENDING,
        "    with transaction.atomic():\n        marked = _mark(held, outcome, left=left)\n"
        "        _report_send_outcome(",
        "    with transaction.atomic():\n        marked = _mark(held, outcome, left=left)\n"
        "    if marked:\n        _report_send_outcome(",
        sending("test_lif_02_a_death_at_the_alarm_leaves_no_message_that_failed_unsaid"),
    ),
    Mutant(
        "a message is marked by a sender that lost it",
        STEPS,
        "pk=held.message.pk, lease_owner=held.owner, status",
        "pk=held.message.pk, status",
        edges("test_lif_02_a_message_is_marked_by_the_holder_of_its_lease_alone"),
    ),
    Mutant(
        "a question that is sent again awaits a second answer",
        STEPS,
        " and not message.attempts and not message.unclear:\n",
        ":\n",
        answers("test_lif_11_who_answers_before_its_own_2xx_is_heard_once"),
    ),
    Mutant(
        "a question that failed is awaited for ever",
        STEPS,
        "        if changed and _is_webhook_question(message):\n",
        "        if not changed and _is_webhook_question(message):\n",
        sending("test_lif_11_a_webhook_that_is_gone_ends"),
    ),
    Mutant(
        "an answer in Slack before its question's mark is no answer",
        "ops/automations/answering.py",
        "    return asked.filter(Q(lease_until__isnull=False) | soon).exists()\n",
        "    return asked.filter(soon).exists()\n",
        answers("test_lif_11_an_answer_that_comes_before_its_questions_mark_is_heard_when_it_is_repeated"),
    ),
    Mutant(
        "a target that hangs has all claims",
        STEPS,
        " AND channel || ' ' || target <> ALL(%s)",
        " AND (%s::text[] IS NOT NULL)",
        sending("test_lif_11_a_target_that_hangs_holds_up_no_other"),
    ),
)
