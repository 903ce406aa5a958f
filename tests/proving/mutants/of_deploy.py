"""Faults in deploy/: what would drift from the code, be given too much, or overwrite a backup."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

STACK: Final = "deploy/aws/platform.yaml"

stack = In("integration/platform/test_deploy_aws")
manifests = In("unit/test_deploy_kubernetes")
alerts = In("unit/test_deploy_alerts")
backups = In("unit/test_deploy_backups")
inputs = In("unit/test_submit_request")

MUTANTS: Final = (
    Mutant(
        "deploy: the stack's queue of events shows a message again before a lease is over",
        STACK,
        "VisibilityTimeout: 90",
        "VisibilityTimeout: 30",
        stack("test_dpp_86_provision_finds_nothing_to_change_in_what_the_stack_makes"),
    ),
    Mutant(
        "deploy: the platform may do anything with its queues",
        STACK,
        "- sqs:SendMessage\n",
        '- "sqs:*"\n',
        stack("test_dpp_86_the_platform_may_what_it_calls_and_no_more"),
    ),
    Mutant(
        "deploy: a worker is killed within its grace",
        "deploy/kubernetes/base/worker.yaml",
        "terminationGracePeriodSeconds: 130",
        "terminationGracePeriodSeconds: 100",
        manifests("test_dpp_78_each_part_is_given_longer_than_its_own_grace"),
    ),
    Mutant(
        "deploy: an alert asks for a metric that nobody counts",
        "deploy/prometheus/alerts.yaml",
        "max(dpp_ledger_behind)",
        "max(dpp_ledgers_behind)",
        alerts("test_dpp_86_alerts_and_board_ask_for_what_there_is"),
    ),
    Mutant(
        "deploy: a segment of another Postgres is taken for ours",
        "deploy/postgres/archive.sh",
        'cmp -s "$from" "$folder/$name" && exit 0',
        "exit 0",
        backups("test_dpp_86_a_segment_is_archived_once_and_never_overwritten"),
    ),
    Mutant(
        "deploy: a new input is stored though it says nothing, and the previous worker refuses the run",
        "runs/packs/probe.py",
        "exclude_if=lambda often: often == 0, ",
        "",
        inputs("test_hrd_27_a_new_input_that_says_nothing_is_not_stored"),
    ),
)
