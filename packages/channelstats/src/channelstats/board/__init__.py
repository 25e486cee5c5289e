"""The numbers that the dashboard shows.

The one rule: a view is a pure function of what was read for a choice of days; people, channels and
emoji are IDs in it until whoever shows it names them.

    model      a view before it has a form
    data       what the views of a choice of days are made of
    scope      the chosen part of it
    asked      what a view was asked about, and what must not be shown of it
    figures    the numbers of a period, one function each
    points     the days or weeks that a number is shown over
    pieces     tiles, lines and tables of several views
    views      every view by its name
    overview, volume, hours, channels, people, threads, reactions, network, newcomers: one view each
    renaming   a view under other names
    twins      a view as JSON, a table as CSV
"""
