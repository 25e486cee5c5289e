"""Columns of a period → the report document.

Rule: everything here but `inputs` and `document_of` is a pure function of its arguments, and every
figure follows from counted messages (`channelstats.counting`) by the definition beside it.

    inputs        what a report needs, from the tables
    period        days of a report and of the one before; weeks; the points of a period
    messages      counted messages as columns: local times, reactions, mentions, answers
    measures      the frames and figures of one period       (statistics)
    quantities    exact numbers, one or as columns, and against those of the period before
    activity      when                                       (weekday, hour, timezone, …)
    rankings      each author and each channel               (user_stats, channel_stats, …)
    interactions  who interacts with whom                    (enriched_user)
    talk          what became of a question in the talk after it
    conversation  threads, first replies, retention, …       (new_statistics)
    json_text     frames as JSON text
    entries       the parts of the document for each user and each channel
    document      all of it, from the store or made again
"""

from channelstats.stats.document import report
from channelstats.stats.inputs import Inputs, Options
from channelstats.stats.period import Period

__all__ = ["Inputs", "Options", "Period", "report"]
