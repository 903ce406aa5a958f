"""What the admin console's pages share."""
