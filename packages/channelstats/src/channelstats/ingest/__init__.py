"""What a source says → rows of the tables.

The one rule: every step can be done again. An import that was interrupted goes on; one that was
finished changes nothing when it is repeated; of two that overlap the more recent one wins, in
whichever order they come.

    message_row    a message as Slack writes it → a row
    threads        rows that were stored and rows that came → what to store, threads rebuilt
    seen           up to when stored rows are known to be as they are
    people         users and channels as Slack writes them → rows
    first_posts    keeping FirstPost true
    export_import  an export archive → every table
    export_channel the messages of one of its channels → the tables
    export_pieces  the files of a channel → its rows, a piece at a time
    export_reader  reading pieces beside storing them, in a process of its own
    events         what an import reports
    sync           the Web API → every table: users, channels, messages
    sync_users, sync_channels, sync_messages: one part each
    sync_reading   what the Web API says now about the messages of one channel
    sync_choice    what a run takes in
    sync_progress  which channels an interrupted run has done already
    sync_events    what a run reports
    members_csv    Slack's list of members → when accounts were made
    migration      another installation's tables, the original's above all → every table
    migrating_directory  the people and channels of it
    older_tables, older_rows: its tables, opened to be read, and its messages
    opted_out      whom an import leaves out
    forget         somebody goes out of the tables, for good
    retention      messages do not grow older than they may
"""
