"""SQS and S3 clients, queue provisioning and depth."""
