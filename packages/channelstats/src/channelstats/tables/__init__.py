"""The tables of the data model over keytables: what is stored, under which names, in which form.

The one rule: names and encodings are those of the data model; both spellings of the past are read,
one is written.

    store          all tables of one prefix, opened; one run writes at a time
    items          names, keys and indexes of tables; attributes, batches and pages of items;
                   texts of any length: members of channels, stored reports
    message_row    a message as a row and an item; mentions, reactions, replies as text
    columns        messages as columns, and those of a date in a file
    messages       reading and writing messages, as rows and as columns
    day_versions   the current version of each day; dates being written to
    first_posts    each person's first message, updated while messages come in
    exclusion      messages without those who are excluded; people and dates that are removed
    directory      users and channels, and what is counted of them
    configuration  counts and their history, names, markers of running work
    sending        what was sent where and who is sending it; who is notified
    marks          what is done, snoozed or no question of what is to be done
"""

from channelstats.tables.store import Tables, Taken

__all__ = ["Tables", "Taken"]
