"""Where the data of a workspace comes from, and the form it has there.

Rule: what comes from outside is judged here: a part that cannot be understood is reported, by file
and place, and the rest goes on.

    objects        messages, users and channels as Slack writes them; JSON decoded to them
    archive        a folder or a zip of files, opened safely
    export         an export archive: users, channels, messages
    export_layout  where its files are, of one workspace or of an Enterprise Grid
    client         calls of the Web API, by slack_sdk: limits, retries, listings in pages
    rate_limits    how often each method may be called
    errors         what the Web API refuses
    web_api        its methods: what is read, channels that are changed, what is posted
"""
