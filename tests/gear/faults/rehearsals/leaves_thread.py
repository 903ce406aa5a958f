import threading
import time

from tests.gear.faults.rehearsals import rehearsing

PACK = rehearsing(threading.Thread(target=time.sleep, args=(600,), daemon=True).start)
