"""What Redis and the ledger say is compared with what the rows prove: tenant by tenant, and pass by pass."""
