"""The bytes between a volume and the archive bucket: written once, read back whole, never trusted by their name.

Nothing here knows rows. What goes wrong is one of the four failures of `drivers/base.py`; S3 that is away, refuses us
or answers nonsense is `DriverUnavailable`, and what was read and is not what was written is `DriverCorrupt`.
"""
