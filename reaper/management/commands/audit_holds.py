"""manage.py audit_holds --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "End abandoned submits, and make holds fit their runs."
    job = "hold_auditor"
