"""How the console writes a moment: to the second, and in which zone. A lease lives two minutes."""

from typing import Final

DATETIME_FORMAT: Final = "Y-m-d H:i:s T"
