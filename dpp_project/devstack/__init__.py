"""The platform on one machine: real Postgres, Valkey, SQS and S3 without containers, and the processes over them.

Read in this order: `programs` (what may run), `postgres`, `valkey`, `aws`, `apps` (the programs themselves),
`supervisor` (keeps them running), `commands` (what a person types).
"""
