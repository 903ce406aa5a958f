"""What is sold here: which kind of workspace, and of which images. By this process's settings."""

from dataclasses import dataclass

from dpp_project.process_env import ENV


@dataclass(frozen=True, slots=True)
class Offer:
    kind: str
    images: tuple[str, ...] = ()

    @property
    def default_image(self) -> str | None:
        return self.images[0] if self.images else None


def current_workspace_offer() -> Offer | None:
    """None: no workspaces are sold here."""
    if ENV.DPP_WORKSPACES_DRIVER is None:
        return None
    images = tuple(ENV.DPP_WORKSPACES_IMAGES) if ENV.DPP_WORKSPACES_DRIVER == "docker" else ()
    return Offer(ENV.DPP_WORKSPACES_DRIVER, images)
