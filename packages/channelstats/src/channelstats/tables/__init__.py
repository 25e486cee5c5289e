"""The tables of the data model over keytables: what is stored, under which names, in which form.

The one rule: names and encodings are those of the data model; both spellings of the past are read,
one is written.

    store          all tables of one prefix, opened
    declarations   keys and indexes, as data
    attributes     reading attributes of items that others may have written
    paging         many items: batches and pages
    codecs         mentions, reactions, replies, files: text in one attribute
    message_row    a message as a row
    messages       reading and writing rows of messages
    columns        rows of messages as columns
    day_versions   which state of a date's messages is the present one; dates being written to
    day_files      the messages of a date as columns, kept in a file
    directory      users and channels
    configuration  counts and their history, names, markers of running work
    sent_reports   what was sent where, and who is sending it
    first_posts, watermarks, members_log, text_store, user_hash, subscriptions: one table each
"""

from channelstats.tables.store import Tables, Taken

__all__ = ["Tables", "Taken"]
