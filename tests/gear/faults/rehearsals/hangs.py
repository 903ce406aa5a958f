import ctypes

from tests.gear.faults.rehearsals import rehearsing

PACK = rehearsing(lambda: ctypes.CDLL(None).sleep(600))
