"""Webhooks: a tenant's addresses, and what happened told to them, signed, until they have heard it.

event_names.py  what there is to hear of          models.py        endpoints, secrets, messages, deliveries, attempts
signing.py      the signature of an attempt       signing_secrets.py  encrypted where they lie
reach.py        which addresses may be reached    registration.py  what is asked of a URL before it is taken
transitions.py  the states of rows, and no other writer of them
services.py     what people do                    api/ admin management: where they do it
"""
