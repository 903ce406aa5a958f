import ctypes

from tests.gear.faults.rehearsals import rehearsing

PACK = rehearsing(lambda: ctypes.string_at(0))
