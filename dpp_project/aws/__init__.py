"""SQS and S3: clients, sends, receipts, depth of queues, provisioning."""
