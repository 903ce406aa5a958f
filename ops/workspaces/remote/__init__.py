"""What API and workers ask of the process that holds a workspace: run a command, read a log.

That process is found by the workspace's driver, asked over HTTP, and believes a request by its seal alone.
"""
