from tests.gear.faults.rehearsals import rehearsing


def _raise() -> None:
    raise SystemExit(3)


PACK = rehearsing(_raise)
