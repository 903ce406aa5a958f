"""The product's own host with the limits of GEAR_BODY_LIMITS (JSON), so that no test waits for ten seconds."""

import json
import os

from dpp_project.api_server.host import ApiHost
from dpp_project.api_server.request_bodies import BodyLimits
from dpp_project.asgi import django
from dpp_project.settings import ENV

application = ApiHost(
    django, threads=ENV.DPP_API_THREADS, limits=BodyLimits(**json.loads(os.environ["GEAR_BODY_LIMITS"]))
)
