"""Faults on the way out and in: what jobs reach of the world, what a queue message may say, what uploads hold."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

CONNECTING: Final = "dpp_project/outbound/connecting.py"
NETWORK: Final = "dpp_project/outbound/network.py"
BROKER: Final = "runs/box/broker.py"
SEAL: Final = "dpp_project/seals.py"
MESSAGE: Final = "dpp_project/celery_sqs/celery_message.py"
UPLOADS: Final = "runs/bucket/uploads.py"

broker = In("integration/packs/test_box_broker")
fetching = In("integration/packs/test_pack_url_fetching")
seals = In("unit/test_message_seal")
uploads = In("integration/runs/test_uploads_api")
cancels = In("integration/runs/test_cancel_runs")

MUTANTS: Final = (
    Mutant(
        "one public address of a name excuses the others",
        CONNECTING,
        "    for address in found:\n",
        "    for address in found[:1]:\n",
        fetching("test_pack_url_one_private_answer_among_public_ones_refuses_the_name"),
    ),
    Mutant(
        "a caller is told where a name leads",
        CONNECTING,
        "typed_ip=address if here.is_address else None",
        "typed_ip=address",
        broker("test_a_name_that_leads_inside_is_refused_without_its_address"),
    ),
    Mutant(
        "one tenant's lost names take all threads",
        NETWORK,
        "            if self._asking[question.caller] < LOOKUPS_OF_ONE_CALLER_MAX:\n",
        "            if self._asking[question.caller] < LOOKUPS_MAX:\n",
        broker("test_names_are_asked_for_in_so_many_threads_and_one_caller_leaves_the_others_theirs"),
    ),
    Mutant(
        "a lookup whose caller has gone is not counted any more",
        NETWORK,
        "                if question in self._waiting:\n",
        "                self._asking -= Counter([caller])\n                if question in self._waiting:\n",
        broker("test_names_are_asked_for_in_so_many_threads_and_one_caller_leaves_the_others_theirs"),
    ),
    Mutant(
        "a run dials one host as often as it likes",
        BROKER,
        "                await turn.acquire()\n",
        "                pass\n",
        broker("test_five_of_a_run_are_at_one_host_at_once"),
    ),
    Mutant(
        "a call may last for no time",
        BROKER,
        "not seconds > 0",
        "seconds < 0",
        broker("test_a_call_that_no_pack_of_ours_makes_ends_the_run"),
    ),
    Mutant(
        "what a run has under way outlives it",
        BROKER,
        "        for task in self._tasks.values():\n            task.cancel()\n",
        "        self._turns.clear()\n",
        broker("test_five_of_a_run_are_at_one_host_at_once"),
    ),
    Mutant(
        "a pack that may connect may also ask the engine",
        BROKER,
        "if self._reach.asks is None or self._asked > ASKED_MAX",
        "if self._asked > ASKED_MAX",
        broker("test_a_call_that_no_pack_of_ours_makes_ends_the_run"),
    ),
    Mutant(
        "the seal leaves the arguments out",
        "dpp_project/celery_sqs/message_seal.py",
        "json.dumps(sealed)",
        "json.dumps(sealed[:3])",
        seals("test_what_the_seal_holds_cannot_be_changed"),
    ),
    Mutant(
        "a message without a seal is obeyed",
        MESSAGE,
        '    if found is None and ENV.DPP_QUEUE_UNSEALED == "refuse":\n',
        '    if found is None and ENV.DPP_QUEUE_UNSEALED == "never":\n',
        seals(
            "test_a_message_without_a_seal_is_refused_unless_its_senders_are_being_replaced",
            "test_a_forged_letter_decides_over_no_run",
        ),
    ),
    Mutant(
        "a wrong seal passes while old senders are replaced",
        MESSAGE,
        "    if found is not None and not (\n",
        '    if found is not None and ENV.DPP_QUEUE_UNSEALED == "refuse" and not (\n',
        seals("test_a_message_without_a_seal_is_refused_unless_its_senders_are_being_replaced"),
    ),
    Mutant(
        "a fallback key does not open what it sealed",
        SEAL,
        "    secrets = (ENV.DPP_SECRET_KEY, *ENV.DPP_SECRET_KEY_FALLBACKS)\n",
        "    secrets = (ENV.DPP_SECRET_KEY,)\n",
        seals("test_a_key_is_changed_in_three_steps_and_no_message_is_lost"),
    ),
    Mutant(
        "the loser of a refund deletes the inputs",
        "runs/transitions.py",
        "        if ended:\n            RunInputs",
        "        if ended is not None:\n            RunInputs",
        cancels("test_hrd_20_inputs_go_with_the_commit_of_a_refund_not_with_its_claim_nor_its_loser"),
    ),
    Mutant(
        "room for an upload is counted without the lock",
        UPLOADS,
        "    Tenant.objects.select_for_update(no_key=True)",
        "    Tenant.objects",
        uploads("test_hrd_20_of_two_at_once_one_finds_the_last_room"),
    ),
    Mutant(
        "a file loses its room when it is looked for",
        UPLOADS,
        "    if storage.shared_run_storage().head(room.key) is None:\n",
        "    if storage.shared_run_storage().head(room.key) is not room:\n",
        uploads("test_hrd_20_room_that_no_file_came_into_is_given_back_and_a_file_keeps_its_room"),
    ),
    Mutant(
        "an upload's address works again",
        "runs/bucket/storage.py",
        '                "IfNoneMatch": IF_ABSENT,\n',
        "",
        uploads("test_dpp_65_length_type_and_end_are_signed"),
    ),
)
