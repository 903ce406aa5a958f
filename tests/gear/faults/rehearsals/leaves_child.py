import subprocess

from tests.gear.faults.rehearsals import rehearsing

PACK = rehearsing(lambda: subprocess.Popen(["sleep", "600"], start_new_session=True))
