"""manage.py reconcile --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "Carry out what a finisher decided and left unfinished for five minutes."
    job = "claim_reconciler"
