"""Faults under load: the whole platform as `make up` starts it, customers who pay, and a deck of disasters.

stand.py       the platform in a folder of its own: its processes, proxies before its services, a second worker
customers.py   who submits, repeats, cancels, tops up, reports auth errors and reads; each keeps the receipts
capped.py      fifty agents on one key with caps, another key beside it, and who changes the caps
homes.py       tenants who write in workspaces, and put them to rest, wake, delete and undelete them
automated.py   services whose signed hooks make runs of a tenant, and where the messages about them go
receiver.py    the receiver of a customer's webhooks, which keeps what it took
faults.py      what can happen, dealt from a seed
audit.py       what must be true at the end, read from Postgres, Redis, SQS and S3 themselves
events_audit.py  and of each event: reports analysed once, each run's end told under one id
caps_audit.py  and of the caps: what was counted at each hold, and what was told of windows that are full
homes_audit.py  and of workspaces: each file, each act, each volume, container, process, archive and upload
automations_audit.py  and of automations: each event, from its hook to its message
page.py        docs/chaos.md
"""
