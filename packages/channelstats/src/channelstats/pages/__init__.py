"""What the dashboard and the reports show.

Rule: a page is a list of queries, a pure function of what was read for a choice of days; people,
channels and emoji are IDs in it until a layout names them.

    model            a page before it has a form: what views, reports and digests are
    loading          what the pages of a choice of days are made of, in it and in the days before,
                     and what must not be shown of it
    small_groups     which groups are too small to hide in
    components       tiles, lines and tables of metrics; channels and people as such tables
    goals            goals and alerts: bounds for the tiles of pages
    queue            what is to be done first, with the reason
    annotations      what was marked and assigned of a page's items, and noted on its dates
    team             the team beside all others
    views            the page of every view, by its name
    overview (and volume), todo, hours, channels, people, threads, reactions, network, newcomers:
                     one view each; newcomers also lists the people that its numbers count
    person, channel  the views of one of them
    messages         the messages that something counts
    summary          what happened, in a few sentences
    reports          every report by its kind: pages on one sheet
    digest           the same in a few sentences, and what to do
    document         everything of a period as JSON: its keys, and the query of each
    document_rows    rows of a period as JSON text, for document
    stored_document  the same, as it was kept
"""
