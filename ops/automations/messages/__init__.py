"""Messages on their way to people.

slack.py webhook.py  one message to one place    outcomes.py  how that can end
sending.py           the loop: claim, send, mark      message_steps.py  the only writer of a status
"""
