"""The environment of this process, read and checked once, at the first import. Django's settings are made from it too.

`dpp_project.env` has the schema alone, and may be imported where no environment is set.
"""

from typing import Final

from dpp_project import env
from dpp_project.env import Environment

ENV: Final[Environment] = env.read_environment()
