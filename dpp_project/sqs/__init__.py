"""SQS: the client of a process, and the Celery transport that survives the service being away."""
