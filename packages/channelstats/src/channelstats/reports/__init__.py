"""A report document → something to read.

The one rule: a form of a report is a pure function of the document, a directory of names and
options; nothing here changes a document, and rendering twice gives the same twice.

    cache            a document from the store, or made anew
    anonymous        pseudonyms in place of names and IDs, in a document and a directory
    suppression      leaving out groups that are too small to hide in
    selection        the part of a document that a report is about
    view             the document with types
    model            a report before it has a form
    sections, workspace_report, channel_report, user_report: documents → the model
    text, slack_blocks, slack_messages, html_page, charts: the model → a form
    data_tables, data_files: the document → CSV and Parquet
    render           every form, by its name
"""
