"""manage.py expire_runs --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "Delete results and inputs past their retention; forget tombstones after a year."
    job = "run_retention"
