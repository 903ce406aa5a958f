"""manage.py reap --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "End runs whose worker stopped renewing its lease, at the minimum fee."
    job = "lease_reaper"
