"""Made-up workspaces of any size, as Slack exports them: for the demo, tests and benchmarks.

directory   who there is, when they write, and the channels where they do
workspace   what is written in the channels, and the export that holds it: a zip or a folder
"""
