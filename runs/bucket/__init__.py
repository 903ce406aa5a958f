"""Objects in S3: results, artifacts, uploads, and addresses that expire."""
