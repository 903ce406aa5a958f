"""`python -m dpp_project.devstack`."""

import sys

from dpp_project.devstack.commands import main

sys.exit(main())
