"""An id in the path of an address."""

import uuid

from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode


def id_in_path(text: str) -> uuid.UUID:
    """As it was given out. Any other form names nothing, and is answered as an unknown id is."""
    try:
        found = uuid.UUID(text)
    except ValueError:
        found = None
    if found is None or str(found) != text:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    return found
