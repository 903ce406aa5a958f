"""Connections to addresses that others choose: each is checked, made and bounded here, and nowhere else.

refusals.py     why an address was not reached
locations.py    a URL to its one reading        addresses.py       which addresses may be reached
network.py      names and connections           connecting.py      URL and rules to a connected socket
private_hosts.py  the operator's exceptions
http_exchange.py  one HTTP exchange             exchanging.py      URL and rules to a whole, bounded answer

A leaf: it knows no app, no environment and no pack. Its callers give the rules.
"""
