"""What a source says → rows of the tables.

Rule: every step can be done again. An import that was interrupted goes on; one that was finished
changes nothing when it is repeated; of two that overlap the more recent one wins, in whichever
order they come.

    export_import    an export archive → every table
    export_reader    its channels, read beside storing them
    export_time      up to when it has every message, and which of two was taken later
    sync             the Web API → every table: users, channels, messages
    sync_messages    its messages, many channels at once
    accounts         Slack's list of members → when accounts were made

    runs             what they share: who is left out, how it is stored, what is reported; options
                     and checkpoints
    home             whose workspace a store is of
    people           who is one person, and who is from outside
    rows             users, channels and messages as Slack writes them → rows
    questions        whether a message asks something
    merging          rows that came merged with stored ones; when those were found unchanged
"""
