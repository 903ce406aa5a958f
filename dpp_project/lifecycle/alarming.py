"""What a person must see to: looked for every 30 s, written down when it begins and when it is over.

An app names what it looks for in its `alarms.py`, in `CHECKS`: a check answers what is wrong now, by subject. So an
alarm that nobody could write while Postgres was away is raised when it is back, and one whose cause is gone ends by
itself. A check that fails says nothing: what it found before stands.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import structlog
from django.db.models.functions import Now

from dpp_project import discovery
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle.models import Alarm

log = structlog.get_logger("dpp.alarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmCheck:
    name: str
    means: str
    """For people, and what to do stands in docs/operations.md."""
    look: Callable[[], Mapping[str, str]]
    """What is wrong now: of each subject, what to say of it."""


@cache
def alarm_checks() -> Mapping[str, AlarmCheck]:
    found: dict[str, AlarmCheck] = {}
    for module in discovery.discovered_modules("alarms"):
        for check in getattr(module, "CHECKS", ()):
            if check.name in found:
                raise ValueError(f"two alarms are called {check.name}")
            found[check.name] = check
    return dict(sorted(found.items()))


def look_at_all() -> PassReport:
    """Two at once raise each alarm once: the database lets one row of a name and subject be open."""
    begun = ended = 0
    failed: dict[str, str] = {}
    for check in alarm_checks().values():
        try:
            wrong = check.look()
        except Exception as error:  # one check that fails hides no other's alarm
            log.warning("alarm not looked for", alarm=check.name, exc_info=error)
            failed[check.name] = type(error).__name__
            continue
        begun_now, ended_now = _begin_and_end_alarms(check, wrong)
        begun, ended = begun + begun_now, ended + ended_now
    detail = {"begun": begun, "ended": ended} | ({"failed": failed} if failed else {})
    return PassReport(seen=len(alarm_checks()), changed=begun + ended, errors=len(failed), detail=detail)


def standing_alarms() -> list[Alarm]:
    return list(Alarm.objects.filter(ended_at__isnull=True).order_by("name", "subject"))


def _begin_and_end_alarms(check: AlarmCheck, wrong: Mapping[str, str]) -> tuple[int, int]:
    known = {alarm.subject: alarm for alarm in Alarm.objects.filter(name=check.name, ended_at__isnull=True)}
    new = [
        Alarm(name=check.name, subject=subject, said=said) for subject, said in wrong.items() if subject not in known
    ]
    Alarm.objects.bulk_create(new, ignore_conflicts=True)
    for alarm in new:
        log.error("alarm", alarm=alarm.name, subject=alarm.subject, said=alarm.said)
    for subject, alarm in known.items():
        if subject in wrong and wrong[subject] != alarm.said:
            Alarm.objects.filter(pk=alarm.pk).update(said=wrong[subject])
    over = [alarm.pk for subject, alarm in known.items() if subject not in wrong]
    ended = Alarm.objects.filter(pk__in=over, ended_at__isnull=True).update(ended_at=Now()) if over else 0
    if ended:
        log.info("alarm over", alarm=check.name, subjects=sorted(known.keys() - wrong.keys()))
    return len(new), ended
