"""channelstats measures a Slack workspace: who talks, where, when, and with whom.

The one rule: what people wrote is counted and never kept; no text, no e-mail address and no token
reaches a table.

    cli      the command line; commands, settings, tokens, progress, lookup are what it is made of
    reports  the report document → Slack, HTML, text, JSON, CSV, Parquet
    ingest   what a source says → rows of the tables
    stats    columns of a period → the report document, pure functions
    slack    sources: export archives and the objects in them
    tables   the tables, their codecs, and their columns
    counting which messages count, and the two profiles
    days     dates and midnights in a time zone
    identifiers  what an ID and a timestamp look like
"""
