"""Faults in the two hosts: the API's loop with its threads, and the worker's slots with the keeper of their leases."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

SLOTS: Final = "dpp_project/celery_sqs/slots.py"
LEASES: Final = "runs/worker/leases.py"
BODIES: Final = "dpp_project/api_server/request_bodies.py"

slots = In("unit/test_worker_slots")
keeper = In("integration/runs/test_lease_keeper")
many = In("integration/runs/test_execution_slots")
host = In("unit/test_api_server")
connections = In("integration/platform/test_api_server_connections")

patience = In("integration/platform/test_postgres_patience")

MUTANTS: Final = (
    Mutant(
        "a pool doubles its pauses for as long as it likes",
        "dpp_project/settings.py",
        '                "reconnect_timeout": POOL_RECONNECT_SECONDS,\n',
        "",
        patience("test_dpp_39_after_a_long_outage_a_connection_is_tried_again_within_seconds"),
    ),
    Mutant(
        "one end of a task is heard for each ring, however many there are",
        SLOTS,
        "            while True:\n                self._tell(self._endings.get_nowait())\n",
        "            self._tell(self._endings.get_nowait())\n",
        slots("test_dpp_38_a_slot_survives_whatever_its_task_raises"),
    ),
    Mutant(
        "what leaves is no failure of its task",
        SLOTS,
        "    except BaseException as error:\n        raise TaskRaised(type(error).__name__) from error\n",
        "    except BaseException as error:\n        return error\n",
        slots("test_dpp_38_a_slot_survives_whatever_its_task_raises"),
    ),
    Mutant(
        "a stop begins what waited",
        SLOTS,
        "        with suppress(queue.Empty):\n            while True:\n                self._tasks.get_nowait()\n"
        "                self._open -= 1\n        for _ in self._slots:\n",
        "        for _ in self._slots:\n",
        slots("test_dpp_78_a_stop_acknowledges_each_end_at_once_and_begins_nothing"),
    ),
    Mutant(
        "nothing is acknowledged while the last slot is at work",
        SLOTS,
        "                hub.fire_timers()\n",
        "                pass\n",
        slots("test_dpp_78_a_stop_acknowledges_each_end_at_once_and_begins_nothing"),
    ),
    Mutant(
        "a process that grew is told so twice, which kills it",
        SLOTS,
        "            self.close()\n            os.kill(os.getpid(), signal.SIGTERM)\n",
        "            os.kill(os.getpid(), signal.SIGTERM)\n",
        slots("test_worker_slots_a_process_that_grew_drains_as_on_sigterm"),
    ),
    Mutant(
        "a lease that Postgres cannot confirm is lost",
        LEASES,
        "count=len(asked), exc_info=error)\n            return []\n",
        "count=len(asked), exc_info=error)\n            renewed = set()\n",
        keeper("test_lease_that_postgres_cannot_confirm_is_not_lost"),
    ),
    Mutant(
        "a run that its own worker claimed is stopped",
        LEASES,
        "            return self._held.get(one.lease.run_id) is one\n",
        "            return True\n",
        keeper("test_lease_that_its_own_worker_gave_up_before_the_claim_is_not_lost"),
    ),
    Mutant(
        "a heartbeat renews only what has its signal",
        LEASES,
        "        mine = self._confirmed(held)\n",
        "        mine = self._confirmed(one for one in held if one.has_signal)\n",
        keeper(
            "test_dpp_27_without_its_signal_a_canceled_run_stops_at_the_next_heartbeat",
            "test_dpp_31_one_beat_renews_all_leases_everywhere",
        ),
    ),
    Mutant(
        "the keeper keeps its connection",
        LEASES,
        "            connections.close_all()  # back to the pool\n",
        "            pass\n",
        many("test_dpp_31_more_packs_at_work_than_connections_are_renewed_and_hear_a_cancel"),
    ),
    Mutant(
        "a body that turned out too long is counted for ever",
        BODIES,
        "        self.release(len(body), source)\n        environ",
        "        environ",
        host("test_what_bodies_hold_is_given_back_where_they_are_refused"),
    ),
    Mutant(
        "the youngest body makes room",
        BODIES,
        "next((one for one in candidates if",
        "next((one for one in reversed(candidates) if",
        connections("test_dpp_03_when_bodies_hold_too_much_the_one_longest_on_its_way_makes_room"),
    ),
    Mutant(
        "a body that is called off is not counted as room",
        BODIES,
        "        if any(one.ends_by(now) for one in candidates):\n",
        "        if False:\n",
        In("unit/test_api_server")("test_dpp_03_a_body_that_makes_room_is_not_followed_by_the_next"),
    ),
    Mutant(
        "the bodies of one source keep out everybody else's",
        BODIES,
        "if self._held_of[reading.source] > self._limits.held_bytes_of_source:",
        "if self._held_of[reading.source] > self._limits.held_bytes:",
        host("test_hrd_12_what_one_source_has_waiting_leaves_room_for_the_bodies_of_others"),
    ),
    Mutant(
        "a stop gives a body more time than it had",
        BODIES,
        "        if self._problem is None and (due is None or due > when):\n",
        "        if self._problem is None:\n",
        host("test_a_stop_gives_no_body_more_time_than_it_had"),
    ),
    Mutant(
        "a cookie's parts are joined as those of other headers",
        "dpp_project/api_server/wsgi_environ.py",
        '(";" if name == "HTTP_COOKIE" else ",")',
        '","',
        host("test_an_environ_says_what_the_request_said"),
    ),
    Mutant(
        "any header is the form of a key",
        "dpp_project/api_server/body_rules.py",
        'keys.presented_in(environ.get("HTTP_AUTHORIZATION", "")) is None',
        '"HTTP_AUTHORIZATION" not in environ',
        host("test_dpp_11_a_body_is_read_where_it_belongs_and_with_the_form_of_a_key"),
    ),
    Mutant(
        "an answer without a length is given one",
        "dpp_project/api_server/django_threads.py",
        "        is_measured = self.body and any(",
        "        is_measured = self.body or any(",
        host("test_an_answer_comes_with_its_length_or_in_chunks_as_django_said"),
    ),
)
