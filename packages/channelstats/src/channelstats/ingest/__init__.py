"""What a source says → rows of the tables.

Rule: every step can be done again. An import that was interrupted goes on; one that was finished
changes nothing when it is repeated; of two that overlap the more recent one wins, in whichever
order they come.

    export_import    an export archive → every table
    export_reader    its channels, read beside storing them
    sync             the Web API → every table: users, channels, messages
    sync_run         options, result and checkpoints of such a run
    sync_messages    its messages, many channels at once
    channel_reading  what the Web API says now about the messages of one channel
    migration        another installation's tables, the original's above all → every table
    slack_analytics  files of Slack's analytics → when accounts were made, and counts by days

    messages         a message as Slack writes it → a row; rows that came merged with stored ones
    scan_log         up to when stored rows are known to be as they are
    directory        users and channels as Slack writes them → rows
    first_posts      FirstPost, updated while messages come in
    removal          who and what stays out of the tables, or leaves them
    events           what a run reports while it goes on
"""
