"""manage.py requeue --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "Send the message of queued runs again where it may be lost."
    job = "requeuer"
