"""What the API server loads: `granian --interface wsgi dpp_project.wsgi:application`."""

import multiprocessing
import os

from django.core.wsgi import get_wsgi_application

from dpp_project.http import chunked_bodies
from dpp_project.processes import parent_death

# Granian's worker processes share the listening port: one that outlived a killed master would go on serving old code.
_parent = multiprocessing.parent_process()
if _parent is not None and _parent.pid is not None:
    parent_death.die_with_parent(_parent.pid)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

application = chunked_bodies.told(get_wsgi_application())
