"""How many members a channel had at both ends of a period.

Rule: what no sample says is unknown, never 0.
"""

from collections.abc import Sequence

from channelstats.stats.period import Period


def members_at_ends(samples: Sequence[tuple[int, int]], period: Period) -> tuple[int, int] | None:
    """The members at the beginning and at the end; None when no sample was taken before the end.

    ``samples`` are (seconds, members) in the order of time. The beginning is the latest sample up
    to the first midnight, else the earliest after it; the end is the latest sample before the
    midnight after the last date.
    """
    until_end = [members for at, members in samples if at < period.end]
    if not until_end:
        return None
    until_begin = [members for at, members in samples if at <= period.begin]
    return (until_begin or until_end[:1])[-1], until_end[-1]
