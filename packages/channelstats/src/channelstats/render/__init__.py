"""Views and reports → something to read.

Rule: every form is a pure function of a view or a report and of names; rendering twice gives the
same twice.

    reports        every report in every form, by their names
    text, html, slack: the forms that people read
    data           views and reports for programs: JSON, CSV, Parquet
    report_tables  the tables of a report as frames
    names          what people and channels are called, where messages are
    words          numbers, dates and changes as words
    goals          goals and alerts as words
    emoji_signs    signs of common emoji
    charts         pictures as SVG
"""
