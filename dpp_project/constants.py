"""The platform's fixed numbers (DPP-79). One place, exactly these values."""

from typing import Final

RETENTION_DAYS: Final = 30
PRESIGNED_URL_TTL_SECONDS: Final = 600
LEASE_TTL_SECONDS: Final = 120
LEASE_HEARTBEAT_INTERVAL_SECONDS: Final = 30
REAPER_INTERVAL_SECONDS: Final = 30
IDEM_LOCK_TTL_SECONDS: Final = 5
IDEMPOTENCY_MAPPING_TTL_SECONDS: Final = RETENTION_DAYS * 86_400
RESERVATION_TTL_SECONDS: Final = 3_600
POLL_RECOMMENDED_INTERVAL_MS: Final = 1_500
WAIT_SECONDS_MAX: Final = 55
"""Of a request that waits; below the 60 s after which most proxies give an answer up."""
TIMEBOX_SECONDS_DEFAULT: Final = 90
TIMEBOX_SECONDS_MAX: Final = 90
MINIMUM_FEE_FLOOR_MICROS: Final = 5_000
MINIMUM_FEE_PERCENT: Final = 2
MINIMUM_FEE_CAP_MICROS: Final = 100_000

QUEUE_VISIBILITY_SECONDS: Final = 120
QUEUE_MAX_RECEIVES: Final = 3
EVENTS_VISIBILITY_SECONDS: Final = 90
"""Of a receive that names none, as a person's does: longer than a lease of 60 s. Consumers name their own."""
EVENTS_MAX_RECEIVES: Final = 100
"""A net only. A message that comes early, and one whose claim is lost, count as receives of an event that is well."""
EVENTS_RETENTION_SECONDS: Final = 14 * 86_400
MULTIPART_ABORT_DAYS: Final = 7
RATE_LIMIT_PER_MINUTE_DEFAULT: Final = 60
RATE_LIMIT_RETRY_AFTER_SECONDS: Final = 30
WORKER_GRACE_SECONDS: Final = 110
EVENTS_GRACE_SECONDS: Final = 20
"""Longer than one delivery to a webhook's endpoint, 15 s."""
RECOVERY_INTERVAL_SECONDS: Final = 60
RETENTION_INTERVAL_SECONDS: Final = 300
