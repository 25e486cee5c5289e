"""The dashboard, over HTTP.

The one rule: a page shows what a view says, and adds names, form and nothing else.

    app            paths, and what each answers
    front          how many connections there may be, and how long a first request may take
    auth           who may look: the middleware before every page, and the login
    http           forms that come and pages that go
    marking        what is to be done, in words; marking one item of it, or several
    subscribing    who is told of new reports: browsers, and the end of mail
    filters        the query of an address
    service        what is read and worked out, and kept as long as it is right
    usual_pages    makes the pages that are opened first before anybody asks
    message_texts  what messages say, from an export at hand
    addresses      where the parts of a page lead: to what is counted, to whoever is named
    pages          the page of a view, and what its template asks for
    cards          how the sections of a page stand beside one another
    table_pages    which rows of a table a page shows
"""
