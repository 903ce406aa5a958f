"""What people are to hear, as rows: queued with their reason, sent by `messages/`."""
