"""What a source says → rows of the tables.

The one rule: every step can be done again. An import that was interrupted goes on; one that was
finished changes nothing when it is repeated; of two that overlap the more recent one wins, in
whichever order they come.

    message_row    a message as Slack writes it → a row
    threads        rows that were stored and rows that came → what to store, threads rebuilt
    people         users and channels as Slack writes them → rows
    first_posts    keeping FirstPost true
    export_import  an export archive → every table
    events         what an import reports
    sync           the Web API → every table: users, channels, messages
    sync_users, sync_channels, sync_messages: one part each
    sync_reading   what the Web API says now about the messages of one channel
    sync_choice    what a run takes in
    sync_progress  which channels an interrupted run has done already
    sync_events    what a run reports
"""
