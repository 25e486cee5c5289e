"""Reports on their way to Slack.

Rule: a report is sent once, whole, in one thread, whatever happens on the way. What was sent is
recorded in the store, so that another run, on another machine, knows.

    targets      which report goes where
    sender       one report: its parts, what went wrong, what another run has done
    claim        the right to send a report, while it is being sent
    heartbeat    renews a claim while Slack is waited for
    weekly       every report of a week
    goals        the message on goals and alerts
"""
