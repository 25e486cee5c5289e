"""What channelstats costs, as ratios to the least work on the same data, measured in the same run:
`python -m bench.channelstats`.
"""
