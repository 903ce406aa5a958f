"""How the process is put together; nothing of the domain lives here."""
