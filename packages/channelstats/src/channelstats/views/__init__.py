"""The numbers that the dashboard and the reports show.

Rule: a view is a pure function of what was read for a choice of days; people, channels and emoji
are IDs in it until a page names them.

    model         a view before it has a form
    loading       what the views of a choice of days are made of
    comparison    the chosen part of it, in the period and in the one before
    request       what a view was asked for, and what must not be shown of it
    figures       the numbers of a period, one function each
    time_buckets  the days or weeks that a number is shown over
    components    tiles, lines and tables of several views
    slack_counts  what Slack's own analytics say of a period
    slack_components  the tiles and tables that show it
    frame_rows    rows of large tables, made when they are shown
    glossary      what titles mean, in a sentence each
    goals         goals and alerts: bounds for the tiles of views
    registry      every view by its name
    overview, todo, volume, hours, channels, people, threads, reactions, network, newcomers:
                  one view each
    report_data   what the reports of a period are built from
    reports       every report by its kind
    sections      sections that several reports have
    workspace_report, channel_report, user_report: one report each
"""
