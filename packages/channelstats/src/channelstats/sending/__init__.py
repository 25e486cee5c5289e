"""Reports on their way to Slack, and the channels they go to.

The one rule: a report is sent once, whole, in one thread, whatever happens on the way; every record
of it is in the store, so that another run, on another machine, knows.

    targets      which report goes where
    sender       one report: parts, what went wrong, what another run has done
    claim        the right to send a report, while it is being sent
    heartbeat    signs of life while Slack is waited for
    weekly       every report of a week
    companions   channels beside channels, that reports go to
    reviving     an archived channel, brought back
"""
