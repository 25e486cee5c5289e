"""Columns of a period → the report document.

The one rule: everything here but `gather` is a pure function of its arguments, and every figure
follows from counted messages (`channelstats.counting`) by the definition beside it.

    gather        what a report needs, from the tables
    inputs        what a report is made of
    period        days of a report and of the one before; weeks
    zones         local times
    talk          counted messages as columns: words, reactions, mentions, answers
    measures      the frames of one period that figures are taken from
    quantities    exact numbers and how they are ranked and shown
    amounts       the same of many at once, as columns
    shapes        small frames as dictionaries
    json_text     large frames as JSON text
    values        what a document is made of
    volume        how much was said by how many              (statistics)
    activity      when                                       (weekday, hour, timezone, …)
    authors       each author                                (users, user_stats)
    channels      each channel                               (channels, channel_stats, …)
    people        who deals with whom                        (enriched_user)
    top_messages  the most reacted and most replied messages
    conversation  threads, first replies, retention, …       (new_statistics)
    compare       one number against the one before
    small_groups  groups that are too small to be listed
    stored_document  the document from the store, or made anew
    compared      a period against the one before            (compared)
    document      all of it
    membership    members of a channel at both ends of a period
"""

from channelstats.stats.document import ReportDocument, report
from channelstats.stats.inputs import Inputs, Options
from channelstats.stats.period import Period

__all__ = ["Inputs", "Options", "Period", "ReportDocument", "report"]
