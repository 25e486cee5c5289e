"""Where the data of a workspace comes from, and the form it has there.

The one rule: what comes from outside is judged here: a part that cannot be understood is reported,
by file and place, and the rest goes on.

    objects      messages, users and channels as Slack writes them
    decoding     JSON → objects, one at a time where some are broken
    archive      a folder or a zip of files, opened safely
    zip_checks   the files of a zip, and what a zip must not hold
    export       an export archive: users, channels, messages
    api          the Web API: users, channels, members, messages, threads, in pages
    posting      messages and files that are posted, and found again
    channel_care  channels that are made, joined, named, filled with people
    api_calls    calls that keep to limits and outlast troubles
    api_pace     how often each method may be called
    api_transport  one request over HTTP, by slack_sdk
    api_errors   what the Web API refuses
    api_objects  what only the Web API says
"""
