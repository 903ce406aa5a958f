"""What data there are and how long they stay: the daily cleanup, log files, disks, processes that fell silent."""
