"""What happened, as tables of facts: a row for each message, reaction, reply, mention, and for each
person who joined or left a channel.

Rule: facts are made of what was read, once, and never of a choice; what a figure is of is a slice
of them. Who an author is and whether a message counts is decided here, once, for every figure.

    periods       the days of a report and of the ones before; the points of a period
    reading       what a report needs, from the tables
    local_times   the clocks of authors
    facts         the tables of facts, and slices of them
    interactions  who interacts with whom
    talk          what became of a question in the talk after it
"""

from channelstats.facts.periods import Period
from channelstats.facts.reading import Inputs, Options

__all__ = ["Inputs", "Options", "Period"]
