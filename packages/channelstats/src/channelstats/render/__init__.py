"""Views and reports → something to read.

Rule: every form is a pure function of a view or a report and of names; rendering twice gives the
same twice.

    reports        every report in every form, by their names
    text, html, slack: the forms that people read
    data           views and reports for programs: JSON, CSV, Parquet
    report_tables  the tables of a report as frames
    names          what people, channels and emoji are called, where messages are
    words          numbers, dates, changes and goals as words
    charts         charts as SVG
"""
