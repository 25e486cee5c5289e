"""channelstats measures a Slack workspace: who talks, where, when, and with whom.

The one rule: what people wrote is counted and never kept; no text, no e-mail address and no token
reaches a table.

    cli            the command line; commands: what each of them does
    web            the dashboard, over HTTP
    sending        what is sent of a week: reports to Slack, notifications by Web Push
    settings       the settings; credentials, progress, lookup: what commands share
    render         pages and reports as HTML, text, Slack blocks, JSON, CSV, Parquet
    pages          what the dashboard and the reports show: lists of queries
    metrics        every metric, declared once, and the query that makes a table of facts
    anonymize      a copy of a store without names, IDs and links
    facts          what happened, as tables with a row for each thing
    ingest         what a source says → rows of the tables
    slack          sources: export archives, the Web API, and the objects in them
    tables         the tables, their encodings, and their columns
    demo           made-up workspaces
    counting       which messages count
    days           dates and midnights in a time zone
    files          files that are whole or not there, for their owner alone
    identifiers    what an ID and a timestamp look like
    processes      what is done beside the rest, as a task or in a process of its own
"""
