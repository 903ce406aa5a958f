"""What hostile native code in a job would try. Each answers what it reached; a refusal is an OSError, or nothing.

The numbers and paths it is told are the true ones of the machine: an attacker may have guessed them.
"""

import json
import os
import time

from runs.packs.pack import Work
from tests.gear.faults.attacks import on_files, on_kernel, on_namespaces, on_processes, on_room, on_sockets
from tests.gear.faults.attacks.table import ATTACKS, CANARY, DESTRUCTIVE, LEFT, STRAY, WHO
from tests.gear.faults.nasty_packs import Data, Inputs, nasty

__all__ = ["ATTACK", "ATTACKS", "CANARY", "DESTRUCTIVE", "LEFT", "STRAY", "VICTIM", "WHO"]
TABLES = (on_files, on_kernel, on_namespaces, on_processes, on_room, on_sockets)


def _try(work: Work[Inputs]) -> Data:
    """One attack; `key` holds its name and the target."""
    target = json.loads(work.inputs.key)
    work.meter.charge(0)
    try:
        reached = ATTACKS[target["name"]](target)
    except (OSError, ValueError) as error:
        return {"reached": None, "refused": str(error)}
    return {"reached": str(reached) if reached else None, "refused": None}


def _victim(work: Work[Inputs]) -> Data:
    """Another tenant's run, with a secret in its memory and its environment."""
    os.environ["VICTIM"] = CANARY
    work.log("victim", pid=os.getpid())
    time.sleep(120)
    return {}


ATTACK = nasty(_try)
VICTIM = nasty(_victim)
