"""Where events come from.

looking.py github.py jira.py  what is new there           daily.py       when a schedule is due
asking.py failures.py         one question to a service   hooks.py       signed requests that come in
looks.py polling.py           one look; the loop          signatures.py  who signed a body
acts.py settings_of.py        what people do              credentials.py tokens and secrets
source_marks.py               whose turn it is           encrypting.py  secrets under the first key
"""
