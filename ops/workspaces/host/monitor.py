"""Looks at what is, and writes it down: one list of the driver's a pass, then what the list leaves open.

What is not there is asked for a second time, by its name, before it counts as gone: a list may be a moment old. A look
that fails, hangs or comes from another disk keeps what the rows say and marks it stale; nothing begins on them. The
monitor changes nothing at the driver; conditions and phase follow from what it saw (conditions.py).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Final
from uuid import UUID

import structlog

from ops.workspaces import conditions, naming, specs
from ops.workspaces.archive_port import ArchivePort
from ops.workspaces.archive_store.archives import ArchiveHead
from ops.workspaces.conditions import ConditionReason, Conditions, Glimpse, condition_after_look
from ops.workspaces.drivers.base import Driver, DriverError, Label, Listing, SeenContainer
from ops.workspaces.host.looking import LOOKS_SECONDS, UNSEEN, Lookers, Looks
from ops.workspaces.models import WorkspaceArchive, WorkspaceDriver, WorkspaceVolume
from ops.workspaces.rows import driver_rows, observations, transitions, volumes
from ops.workspaces.rows.observations import WatchedRow
from ops.workspaces.states import ArchiveState, VolumeState

log = structlog.get_logger("dpp.workspaces")

GONE_AT_ONCE: Final = 5
GONE_SHARE: Final = 0.2


@dataclass(slots=True)
class LookReport:
    changed: list[UUID] = field(default_factory=list)
    caught_up: list[UUID] = field(default_factory=list)
    """Unchanged, and looked at since the last effect: an operation may wait for just that."""
    unchanged: int = 0
    stale: int = 0

    @property
    def looked_at(self) -> int:
        return len(self.changed) + self.unchanged


class Monitor:
    def __init__(
        self, driver: Driver, store: ArchivePort, *, driver_id: str, looks_seconds: float = LOOKS_SECONDS
    ) -> None:
        self._driver = driver
        self._driver_id = driver_id
        self._lookers = Lookers(driver, store, seconds=looks_seconds)

    def run_once(self) -> LookReport:
        """One pass over what is due. The rows are read before the look: what changes meanwhile was not seen."""
        rows = observations.due_observations(self._driver_id)
        if not rows:
            return LookReport()
        listing = self._listed()
        if listing is None:
            return LookReport(stale=observations.write_stale(rows))
        return _Pass(rows, listing, kind=self._driver.kind, driver_id=self._driver_id).run(self._lookers)

    def _listed(self) -> Listing | None:
        """None: the list failed, or is of another disk."""
        row = WorkspaceDriver.objects.get(pk=self._driver_id)
        try:
            listing = self._driver.list()
        except DriverError as error:
            log.warning("the driver could not be looked at", driver=self._driver_id, error=str(error))
            return None
        if listing.sentinel != str(row.sentinel):
            log.critical("the driver's sentinel is not there: this is another disk", driver=self._driver_id)
            return None
        driver_rows.mark_driver_listed(self._driver_id, row.sentinel)
        return listing


class _Pass:
    """One list, and the rows that it is compared with."""

    def __init__(self, rows: Sequence[WatchedRow], listing: Listing, *, kind: str, driver_id: str) -> None:
        self._rows = {row.workspace_id: row for row in rows}
        self._kind = kind
        self._driver_id = driver_id
        self._report = LookReport()
        self._now = transitions.database_now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._live: dict[UUID, WorkspaceVolume] = {}
        for volume in WorkspaceVolume.objects.filter(workspace_id__in=self._rows, state=VolumeState.LIVE):
            self._live[volume.workspace_id] = volume
        self._labels = {one.name: one.label for one in listing.volumes if one.label is not None}
        self._named: dict[str, list[str]] = defaultdict(list)
        for name, label in self._labels.items():
            self._named[label.workspace_id].append(name)
        self._containers: dict[str, list[SeenContainer]] = defaultdict(list)
        for one in listing.containers:
            self._containers[_owner(one)].append(one)
        self._states = self._states_of_the_rest()
        self._archives: dict[str, WorkspaceArchive] = {}

    def run(self, lookers: Lookers) -> LookReport:
        """What the list settles is written first, so that a look that hangs delays no other row."""
        stored = {key: Conditions.stored(row.conditions, kind=self._kind) for key, row in self._rows.items()}
        wanted = {key: self._open_questions(row, stored[key]) for key, row in self._rows.items()}
        self._freeze_where_much_is_gone(wanted)
        keys = [looks.archive_key for looks in wanted.values() if looks.archive_key]
        self._archives = WorkspaceArchive.objects.in_bulk(keys) if keys else {}
        self._write({key: looks for key, looks in wanted.items() if not looks.any}, stored)
        asked = {key: looks for key, looks in wanted.items() if looks.any}
        if asked:
            answered = set(lookers.ask(asked))
            self._write({key: asked[key] for key in answered}, stored)
            self._report.stale += observations.write_stale([self._rows[key] for key in asked if key not in answered])
        return self._report

    def _states_of_the_rest(self) -> dict[str, str]:
        """Of seen volumes that are no home, which are few."""
        homes = {volume.volume_name for volume in self._live.values()}
        rest = [name for key in self._rows for name in self._named[str(key)] if name not in homes]
        return volumes.volume_states(rest) if rest else {}

    def _seen_volumes(self, row: WatchedRow) -> list[str]:
        """Those with our labels, all of them: a volume that was made anew under a known name is not the home."""
        live = self._live.get(row.workspace_id)
        return [
            name
            for name in self._named[str(row.workspace_id)]
            if live is None or name != live.volume_name or _is_labelled(live, self._labels[name])
        ]

    def _open_questions(self, row: WatchedRow, stored: Conditions) -> Looks:
        looks = Looks()
        seen, live = self._seen_volumes(row), self._live.get(row.workspace_id)
        if live is not None and live.volume_name not in seen:
            looks.volume = live.volume_name
        elif live is None and row.home is not None and row.home not in seen:
            looks.volume = row.home
        if not self._containers[str(row.workspace_id)]:
            looks.container = stored.container.reason != ConditionReason.NO_CONTAINER or row.is_touched
        known = stored.archive.detail.get("key")
        if row.archive_key is not None and (row.is_touched or stored.archive.stale or known != row.archive_key):
            looks.archive_key = row.archive_key
        return looks

    def _freeze_where_much_is_gone(self, wanted: dict[UUID, Looks]) -> None:
        """Before anything of it is written: nobody acts on what may be a disk that was not mounted."""
        if not any(looks.volume and key in self._live for key, looks in wanted.items()):
            return
        known = WorkspaceVolume.objects.filter(driver_id=self._driver_id, state=VolumeState.LIVE).filter(
            workspace__conditions__contains={conditions.VOLUME_READY: {"status": True}}
        )
        names = set(known.values_list("volume_name", flat=True))
        gone = len(names - self._labels.keys())
        if gone >= GONE_AT_ONCE and gone > GONE_SHARE * len(names):
            driver_rows.freeze_driver(self._driver_id, reason=f"{gone} of {len(names)} volumes were gone at once")

    def _write(self, answered: dict[UUID, Looks], stored: dict[UUID, Conditions]) -> None:
        unchanged: list[WatchedRow] = []
        for key, looks in answered.items():
            row = self._rows[key]
            seen = self._judged(row, looks, stored[key])
            phase = conditions.phase_of(seen, is_deleted=row.is_deleted)
            is_whole = not (seen.volume.stale or seen.container.stale)
            if is_whole and seen == stored[key] and phase == row.phase and row.observed_at is not None:
                unchanged.append(row)
                if row.is_touched:
                    self._report.caught_up.append(key)
                continue
            stored_as = seen.to_json(kind=self._kind)
            if observations.write_changed(row, is_whole=is_whole, conditions=stored_as, phase=phase):
                self._report.changed.append(key)
        self._report.unchanged += observations.write_unchanged(unchanged)

    def _judged(self, row: WatchedRow, looks: Looks, stored: Conditions) -> Conditions:
        volume = condition_after_look(stored.volume, self._volume(row, looks), at=self._now)
        container = condition_after_look(stored.container, self._container(row, looks), at=self._now)
        archive = stored.archive
        if looks.archive_key is not None or row.archive_key is None:
            archive = condition_after_look(stored.archive, self._archive(looks), at=self._now)
        wrong = conditions.workspace_health(
            volume=volume, container=container, archive=archive, error_info=row.error_info
        )
        healthy = condition_after_look(stored.healthy, wrong, at=self._now)
        if volume.stale or container.stale or archive.stale:
            healthy = replace(healthy, stale=True)
        return Conditions(volume=volume, container=container, archive=archive, healthy=healthy)

    def _volume(self, row: WatchedRow, looks: Looks) -> Glimpse | None:
        live = self._live.get(row.workspace_id)
        seen = self._seen_volumes(row)
        if looks.seen_volume is UNSEEN:
            return None
        if looks.seen_volume is not None:
            found = looks.seen_volume
            if found.label is not None and (live is None or _is_labelled(live, found.label)):
                seen.append(found.name)
                if live is None:
                    self._states |= volumes.volume_states([found.name])
        home = live.volume_name if live is not None else None
        return conditions.volume_finding(live=home, home=row.home, states=self._states, seen=seen)

    def _container(self, row: WatchedRow, looks: Looks) -> Glimpse | None:
        seen = self._containers[str(row.workspace_id)]
        if looks.seen_container is UNSEEN:
            return None
        if looks.seen_container is not None:
            seen = [looks.seen_container]
        live = self._live.get(row.workspace_id)
        home = live.volume_name if live is not None else None
        spec_hash = specs.spec_hash(row.spec) if seen else ""
        return conditions.container_finding(seen, home=home, spec_hash=spec_hash)

    def _archive(self, looks: Looks) -> Glimpse | None:
        if looks.archive_key is None:
            return Glimpse(status=False, reason=ConditionReason.NO_ARCHIVE, message="there is none")
        if looks.seen_archive is UNSEEN:
            return None
        row, detail = self._archives.get(looks.archive_key), {"key": looks.archive_key}
        if looks.seen_archive is None:
            is_ours = row is not None and row.state == ArchiveState.DELETED
            reason = ConditionReason.ARCHIVE_EXPIRED if is_ours else ConditionReason.ARCHIVE_NOT_FOUND
            return Glimpse(status=False, reason=reason, message=f"{looks.archive_key} is not there", detail=detail)
        if row is None or not _is_what_was_verified(row, looks.seen_archive):
            message = f"{looks.archive_key} is not what was read back"
            return Glimpse(status=False, reason=ConditionReason.ARCHIVE_CORRUPTED, message=message, detail=detail)
        return Glimpse(status=True, reason=ConditionReason.ARCHIVE_UPLOADED, message="it is there", detail=detail)


def _owner(container: SeenContainer) -> str:
    """By its label; by its name where it has none."""
    if container.label is not None:
        return container.label.workspace_id
    return str(naming.read_container_name(container.name) or "")


def _is_labelled(volume: WorkspaceVolume, label: Label) -> bool:
    return label == Label(str(volume.workspace_id), str(volume.op_id), volume.attempt)


def _is_what_was_verified(row: WorkspaceArchive, head: ArchiveHead) -> bool:
    if row.state == ArchiveState.QUARANTINED or head.identity is None or head.object_bytes != row.object_bytes:
        return False
    return head.identity.token == row.token and row.epoch in (None, head.identity.epoch)
