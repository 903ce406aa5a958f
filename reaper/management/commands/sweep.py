"""manage.py sweep --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "End runs that waited an hour without starting, and return their hold."
    job = "reservation_sweeper"
