from tests.gear.faults.rehearsals import rehearsing

PACK = rehearsing(lambda: None)
