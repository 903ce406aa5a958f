"""What an owner may say of a run beside its inputs: sixteen keys with a value each, and its place among the others."""

from typing import Final

METADATA_KEYS_MAX: Final = 16
METADATA_KEY: Final = r"^[A-Za-z0-9_.:-]{1,40}$"
METADATA_VALUE_LENGTH_MAX: Final = 500
METADATA_FILTERS_MAX: Final = 3
"""Of one list: each beside the first is looked up for each run that the first finds."""

CONCURRENCY_KEY: Final = r"^[A-Za-z0-9_.:-]{1,64}$"
CONCURRENCY_MAX: Final = 1_000
PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 5
