"""Faults in what workspaces serve over HTTP: who is let in, what passes, what counts as use."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

ADMISSION: Final = "ops/workspaces/proxy/admission.py"
CARRYING: Final = "ops/workspaces/proxy/carrying.py"
HEADS: Final = "ops/workspaces/proxy/heads.py"
LINKS: Final = "ops/workspaces/proxy/links.py"
SERVER: Final = "ops/workspaces/proxy/server.py"
ANSWERS: Final = "ops/workspaces/proxy/answers.py"
SIDE: Final = "ops/workspaces/proxy/side.py"
STAYING: Final = "ops/workspaces/proxy/staying.py"

proxy = In("integration/workspaces/test_workspace_proxy")
peers = In("integration/workspaces/test_workspace_proxy_peers")
keys = In("integration/workspaces/test_workspace_proxy_keys")

MUTANTS: Final = (
    Mutant(
        "a workspace is told its caller's key",
        HEADS,
        'frozenset({b"authorization", b"cookie", ',
        'frozenset({b"cookie", ',
        proxy("test_a_request_arrives_without_what_proves_its_caller"),
    ),
    Mutant(
        "a workspace is told its caller's cookies",
        HEADS,
        'frozenset({b"authorization", b"cookie", ',
        'frozenset({b"authorization", ',
        proxy("test_a_request_arrives_without_what_proves_its_caller"),
    ),
    Mutant(
        "a workspace sets cookies",
        HEADS,
        '    {b"set-cookie", b"set-cookie2", ',
        '    {b"set-cookie2", ',
        proxy("test_an_answer_speaks_for_its_workspace_alone"),
    ),
    Mutant(
        "a request may say twice how long it is",
        HEADS,
        '    if codings and (lengths or request.http_version != b"1.1"):\n',
        "    if False:\n",
        peers("test_what_might_be_taken_for_something_else_is_refused"),
    ),
    Mutant(
        "a link signs in at another workspace's host",
        SERVER,
        ' or head.method != b"GET" or not links.is_at_home(head.door.workspace_id, head.host):\n',
        ' or head.method != b"GET":\n',
        proxy("test_a_link_signs_a_browser_in_to_one_port"),
    ),
    Mutant(
        "a cookie counts at another workspace's host",
        ADMISSION,
        "    if links.is_at_home(head.door.workspace_id, head.host):\n",
        "    if True:\n",
        proxy("test_a_link_signs_a_browser_in_to_one_port"),
    ),
    Mutant(
        "another site's page acts with a person's cookie",
        ADMISSION,
        "                if head.is_from_elsewhere:\n",
        "                if False:\n",
        proxy("test_another_sites_page_does_not_act_with_a_persons_cookie"),
    ),
    Mutant(
        "a cookie outlives the key that made its link",
        ADMISSION,
        "        Q(expires_at__isnull=True) | Q(expires_at__gt=Now()),\n",
        "",
        proxy("test_a_cookie_ends_with_the_key_that_made_its_link"),
    ),
    Mutant(
        "a link is a cookie",
        LINKS,
        '_COOKIE: Final = b"dpp workspace cookie 1"\n',
        "_COOKIE: Final = _LINK\n",
        proxy("test_a_link_signs_a_browser_in_to_one_port"),
    ),
    Mutant(
        "a pass has no end",
        LINKS,
        "    return granted if _now() < granted.expires else None\n",
        "    return granted\n",
        proxy("test_a_link_signs_a_browser_in_to_one_port"),
    ),
    Mutant(
        "another tenant's workspace is reached",
        ADMISSION,
        "selectors.workspace_of(admitted.tenant_id, head.door.workspace_id)",
        "selectors.workspace_of(None, head.door.workspace_id)",
        proxy("test_who_is_not_let_in_wakes_nothing"),
    ),
    Mutant(
        "asking in vain is use",
        ADMISSION,
        "using.awake_workspace(workspace, actor=actor, is_used=False)",
        "using.awake_workspace(workspace, actor=actor)",
        proxy(
            "test_one_that_rests_is_woken_and_a_page_waits_for_it", "test_bytes_are_use_and_a_look_that_fails_is_none"
        ),
    ),
    Mutant(
        "a page waits for ever",
        ANSWERS,
        "    asks_again = waited < WAITS_MAX\n",
        "    asks_again = True\n",
        proxy("test_one_that_rests_is_woken_and_a_page_waits_for_it"),
    ),
    Mutant(
        "a caller that leaves is waited for",
        CARRYING,
        "        await caller.leaves()\n",
        "        pass\n",
        peers("test_a_caller_that_leaves_frees_its_workspace"),
    ),
    Mutant(
        "a body of one-byte chunks has no end",
        SIDE,
        "                if count > PIECES_MAX + size // PIECE_BYTES:\n",
        "                if False:\n",
        peers("test_a_body_is_bounded_whatever_it_says_of_its_length"),
    ),
    Mutant(
        "strangers fill the port",
        SERVER,
        " and not self._made_room():\n",
        ":\n",
        peers("test_who_fills_the_port_without_a_key_shuts_out_nobody"),
    ),
    Mutant(
        "one tenant takes all threads that open ports",
        SERVER,
        "asyncio.Semaphore(OPENERS_OF_ONE)",
        "asyncio.Semaphore(OPENERS)",
        peers("test_an_init_that_does_not_answer_keeps_no_other_tenant_waiting"),
    ),
    Mutant(
        "a few tenants take all connections",
        SERVER,
        "        if its_own >= self.bounds.connections - len(self._let_in):\n",
        "        if False:\n",
        peers("test_one_tenant_leaves_as_many_connections_as_it_has"),
    ),
    Mutant(
        "a place is given back before the answer is taken",
        SERVER,
        "            self._of_workspace -= Counter([workspace_id])\n",
        "            self._of_workspace -= Counter([workspace_id])\n            del self._let_in[caller]\n",
        peers("test_who_does_not_take_its_answer_keeps_its_place"),
    ),
    Mutant(
        "an exchange outlives the key that let it in",
        STAYING,
        "key_has_ended(came) or ",
        "",
        keys("test_an_exchange_is_cut_when_the_key_that_let_it_in_ends"),
    ),
    Mutant(
        "an exchange outlives its link",
        ADMISSION,
        "Admitted(*key, until=granted.expires)",
        "Admitted(*key)",
        keys("test_an_exchange_is_cut_when_the_time_of_its_link_ends"),
    ),
)
