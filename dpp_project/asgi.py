"""What the API server loads: `granian --interface asgi dpp_project.asgi:application`."""

import multiprocessing
import os

from dpp_project.processes import parent_death
from dpp_project.processes.loading import without_collections

# Granian's worker processes share the listening port: one that outlived a killed master would go on serving old code.
_parent = multiprocessing.parent_process()
if _parent is not None and _parent.pid is not None:
    parent_death.die_with_parent(_parent.pid)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

with without_collections():
    from django.core.wsgi import get_wsgi_application

    django = get_wsgi_application()

    from dpp_project.api_server.connections import ConnectionLimits  # what these import needs Django's settings
    from dpp_project.api_server.host import ApiHost, HostLimits
    from dpp_project.heartbeats.pulse import Pulse
    from dpp_project.lifecycle.host_care import HostCare
    from dpp_project.observe import spans
    from dpp_project.settings import ENV

    spans.start_span_export("api")

application = ApiHost(
    django,
    threads=ENV.DPP_API_THREADS,
    port=ENV.DPP_API_PORT,
    trusted_proxies=ENV.DPP_TRUSTED_PROXIES,
    limits=HostLimits(connections=ConnectionLimits(per_address=ENV.DPP_API_CONNECTIONS_PER_ADDRESS)),
)
application.pulse = Pulse(
    service="api",
    slots=ENV.DPP_API_THREADS,
    progress=lambda: application.answered,
    turns=lambda: application.turns,
    address=f"{ENV.DPP_API_HOST}:{ENV.DPP_API_PORT}",
)
application.care = HostCare()
