"""Made-up workspaces of any size, as Slack exports them: for the demo, tests and benchmarks.

directory   who there is, when they write, and the channels where they do
messages    what is written in a channel, as the files of its days hold it
workspace   the files of the whole export, and a zip or a folder of them
"""
