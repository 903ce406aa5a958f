"""Celery's SQS transport that survives the service being away."""
