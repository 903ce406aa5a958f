"""What recovery counts (DPP-74). How deep the queues are is read by dpp_project.aws.metrics."""

from prometheus_client import Counter

LEASES_EXPIRED = Counter("dpp_lease_expiries_total", "Runs whose worker stopped renewing its lease.")
TAKEOVERS = Counter("dpp_claim_takeovers_total", "Claims that a dead finisher left; without faults it stays at 0.")
LOST = Counter("dpp_recovery_lost_total", "Rows that a rival moved first, which is normal.", ["loop"])
SKIPPED = Counter("dpp_recovery_skipped_total", "Rows that failed and were left to a later pass.", ["loop"])
DEAD_LETTERS = Counter("dpp_dead_letters_total", "Dead letters stored, by what was done about them.", ["outcome"])
HOLDS_MENDED = Counter("dpp_holds_mended_total", "Tenants whose holds did not fit their runs and were rebuilt.")
BALANCES_MENDED = Counter("dpp_balances_mended_total", "Tenants whose balance alone was wrong and was rebuilt.")
NOT_MENDED = Counter("dpp_money_not_mended_total", "Tenants whose money is wrong and could not be rebuilt.", ["why"])
