"""Reports on their way to Slack.

Rule: a report is sent once, whole, in one thread, whatever happens on the way. What was sent is
recorded in the store, so that another run, on another machine, knows.

    targets  which report goes where
    sender   one report: its lease, its parts, what went wrong
    weekly   every report of a week, and the message on goals and alerts
"""
