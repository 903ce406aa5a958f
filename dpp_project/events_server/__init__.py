"""The process `events`: the publisher and consumer of the outbox, the webhooks' sender, whatever an `events.py` names.

`python -m dpp_project.events_server`, started by serve.py. No Celery, no queue of runs, no pack.
"""
