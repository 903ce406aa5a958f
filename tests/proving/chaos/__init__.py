"""Faults under load: the whole platform as `make up` starts it, customers who pay, and a deck of disasters.

stand.py       the platform in a folder of its own: its processes, proxies before its services, a second worker
customers.py   who submits, repeats, cancels, tops up and reads; each keeps the receipts
faults.py      what can happen, dealt from a seed
audit.py       what must be true at the end, read from Postgres, Redis, SQS and S3 themselves
page.py        docs/chaos.md
"""
