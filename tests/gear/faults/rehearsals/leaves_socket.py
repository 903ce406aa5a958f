import socket

from tests.gear.faults.rehearsals import rehearsing

PACK = rehearsing(lambda: open_ones.append(socket.socket()))
open_ones: list[socket.socket] = []
