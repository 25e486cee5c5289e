"""Made-up workspaces of any size, as Slack exports them: for the demo, tests and benchmarks.

people      who there is, and the hours and days on which they write
channels    where they write
messages    what is written in a channel, as the files of its days hold it
workspace   the files of the whole export, and a zip or a folder of them
"""
