"""A process that is nothing but loops, each in a thread of its own: `events`, and `workspaces`.

`python -m dpp_project.loops_server events`, started by serve.py. No Celery, no queue of runs, no pack.
"""
