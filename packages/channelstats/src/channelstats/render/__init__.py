"""Pages → something to read.

Rule: every form is a pure function of a page and of names; rendering twice gives the same twice.

    reports   every report in every form, by their names; JSON, CSV and Parquet
    text, html, slack: the forms that people read
    data      pages for programs: JSON and CSV
    names     what people, channels and emoji are called, where messages are
    words     numbers, dates, changes and goals as words
    charts    charts as SVG
"""
