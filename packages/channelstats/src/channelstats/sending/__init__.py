"""What is sent of a week: reports to Slack, notifications and mail to subscribers.

Rule: a report is sent once, whole, in one thread, and nobody is notified of a week twice, whatever
happens on the way. What was sent is recorded in the store, so that another run, on another machine,
knows.

    targets        which report goes where, and what it is made of
    posting        one report in Slack, and every report of a week with goals and alerts
    announcing     notifies subscribers of a new week, and of goals already missed
    week_messages  what they are told
    mail           one mail, handed to the operator's server
    web_push       what a browser gives, where messages may be sent to, and sending one
"""
