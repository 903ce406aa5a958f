"""Images that the daemon has not got yet: pulled beside what asked for them, one pull of an image at a time.

A pull may take minutes, and a registry may be away for an hour. Neither says anything of the workspace: who asks is
told that the image is missing, asks again later, and is never counted as failed.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import docker
import requests
import structlog
from docker.errors import DockerException

from ops.workspaces.drivers.base import DriverRefused, DriverUnavailable
from ops.workspaces.drivers.docker.daemon import ImageMissing

log = structlog.get_logger("dpp.workspaces")

PULL_SILENT_SECONDS: Final = 300
"""So long a daemon may say nothing of a pull."""


class Images:
    def __init__(self, allowed: Sequence[str], connect: Callable[[int], docker.APIClient]) -> None:
        self._allowed = tuple(allowed)
        self._connect = connect
        self._pulling: set[str] = set()
        self._said: dict[str, str] = {}
        """What became of the last pull, where it failed."""
        self._lock = threading.Lock()

    def allowed(self, image: str | None) -> str:
        """The one that is asked for, or the first. Raises DriverRefused."""
        if not self._allowed or (image is not None and image not in self._allowed):
            raise DriverRefused(
                f"the image {image} is not allowed here: DPP_WORKSPACES_IMAGES", reason="ImageNotAllowed"
            )
        return image or self._allowed[0]

    @contextlib.contextmanager
    def pulled(self, image: str) -> Iterator[None]:
        """Where the daemon lacks it, a pull begins, unless one is under way. Raises DriverUnavailable."""
        try:
            yield
        except ImageMissing:
            self._begin(image)
            with self._lock:
                before = f"; the pull before said: {self._said[image]}" if image in self._said else ""
            raise ImageMissing(f"the daemon has no image {image} yet, and pulls it{before}") from None

    def _begin(self, image: str) -> None:
        with self._lock:
            if image in self._pulling:
                return
            self._pulling.add(image)
        threading.Thread(target=self._pull, args=(image,), name=f"pull-{image}", daemon=True).start()

    def _pull(self, image: str) -> None:
        said = None
        try:
            repository, tag = docker.utils.parse_repository_tag(image)
            with contextlib.closing(self._connect(PULL_SILENT_SECONDS)) as api:
                # Without a tag the daemon would pull every one.
                for line in api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                    said = line.get("error") or said
        except (DriverUnavailable, DockerException, requests.RequestException, OSError) as fault:
            said = str(fault)
        with self._lock:
            self._pulling.discard(image)
            self._said.pop(image, None)
            if said is not None:
                self._said[image] = said
        if said is None:
            log.info("an image was pulled", image=image)
        else:
            log.warning("an image could not be pulled", image=image, error=said)
