"""From a request to a run that is held and queued."""
