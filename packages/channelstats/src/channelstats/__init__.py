"""channelstats measures a Slack workspace: who talks, where, when, and with whom.

The one rule: what people wrote is counted and never kept; no text, no e-mail address and no token
reaches a table.

    cli            the command line; commands: what each of them does
    web            the dashboard, over HTTP
    sending        what is sent of a week: reports to Slack, notifications by Web Push
    settings       the settings; credentials, progress, lookup: what commands share
    render         views and reports as pages, text, Slack blocks, JSON, CSV, Parquet
    views          the numbers that the dashboard and the reports show
    anonymize      a copy of a store without names, IDs and links
    stats          columns of a period → figures and the report document, pure functions
    ingest         what a source says → rows of the tables
    slack          sources: export archives, the Web API, and the objects in them
    tables         the tables, their encodings, and their columns
    demo           made-up workspaces
    counting       which messages count, and the two profiles
    days           dates and midnights in a time zone
    identifiers    what an ID and a timestamp look like
    processes      what is done beside the rest, as a task or in a process of its own
"""
