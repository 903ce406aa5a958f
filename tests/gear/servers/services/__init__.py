"""GitHub, Jira and Slack on loopback, in the shapes that they really answer in, each with its known oddities.

web.py's servers carry them, so that every address that is dialled ends here.
"""
