"""manage.py ops_cycle --dry-run"""

from dpp_project.management.job_command import JobCommand


class Command(JobCommand):
    help = "One ops cycle: emergency stop, ticket reaper, open tickets. Its receipt stands in the console."
    job = "ops_cycle"
