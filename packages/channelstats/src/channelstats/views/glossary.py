"""What figures and columns are called, how they are written, and what their titles mean.

Rule: one title means one thing in every view, so it is explained here once. What a title is about
that is not here (a person, a channel, a date) it says itself.
"""

from collections.abc import Mapping
from typing import Final

from channelstats.views.model import Column, Kind

KINDS: Final[Mapping[str, Kind]] = {
    name: kind
    for kind, names in {
        Kind.NUMBER: "words_per_message words_per_poster per_thousand_words rphw",
        Kind.PERCENT: "share share_of_words top_ten largest unanswered_share mutual stayed"
        " weekly_of_monthly percent cpercent",
        Kind.SECONDS: "first_reply first_reply_p90",
        Kind.DATE: "date week",
        Kind.TEXT: "new private weekday hour day time_zone figure",
        Kind.PERSON: "person author from to",
        Kind.CHANNEL: "channel",
        Kind.EMOJI: "emoji",
        Kind.MESSAGE: "message",
        Kind.CHANGE: "change",
    }.items()
    for name in names.split()
}
"""How a figure or a column is written by its name; all others are counts."""

TITLES: Final[Mapping[str, str]] = {
    "words_per_poster": "Words per person",
    "share": "Share of words",
    "top_ten": "Top 10's share of words",
    "first_time": "First-time posters",
    "change": "Change in words",
    "channels": "Active channels",
    "largest": "Largest channel's share of words",
    "channel_messages": "Channel's messages",
    "channel_words": "Channel's words",
    "slack_active": "Active members (Slack)",
    "slack_messages": "Messages (Slack)",
    "here": "Counted here",
    "first_reply": "Median time to first reply",
    "first_reply_p90": "90% answered within",
    "unanswered_share": "% unanswered",
    "answers": "Replies to their threads",
    "per_thousand_words": "Per 1,000 words",
    "answered": "Messages answered",
    "messages_before": "Messages in the period before",
    "done": "To others",
    "received": "From others",
    "mutual": "Mutual pairs",
    "stayed": "Retention",
    "weeks_active": "Active weeks",
    "weekly": "Weekly posters",
    "monthly": "Monthly posters",
    "weekly_of_monthly": "Stickiness (weekly / monthly posters)",
    "percent": "Share of words",
    "cpercent": "Cumulative",
    "rphw": "Reactions per 100 words",
    "thread_messages": "Replies to their threads",
}
"""What figures and columns are called; all others as their names say."""

GLOSSARY: Final[Mapping[str, str]] = {
    # how much
    "Messages": "Messages that people wrote, replies in threads included.",
    "Words": "Words in these messages.",
    "People who posted": "People who wrote at least one message.",
    "People": "People who wrote at least one message there.",
    "Words per message": "Words divided by messages.",
    "Words per person": "Words divided by the people who posted.",
    "Top 10's share of words": "The share of all words that the ten most active people wrote.",
    "Share of words": "The share of all words in this selection.",
    "First-time posters": "People whose first known message is in this period.",
    "Rank": "Place by number of words; 1 is the most.",
    "Change in words": "Words compared with the period before.",
    "Change": "Compared with the period before.",
    # channels
    "Active channels": "Channels with at least one message.",
    "Largest channel's share of words": "The share of all words in the channel with the most.",
    "In private channels": "The share of all messages that are in private channels.",
    "Share of the channel's words": "The share of the channel's words that this person wrote.",
    "Channel's messages": "Messages that everybody wrote in the channel.",
    "Channel's words": "Words that everybody wrote in the channel.",
    "New": "Created in this period.",
    "Private": "Only its members can read it.",
    "Files": "Files posted with these messages.",
    "Channels joined": "Channels that they joined in this period.",
    "Joins": "How often people joined a channel, as far as Slack posted a message about it.",
    "Leaves": "How often people left a channel, as far as Slack posted a message about it.",
    "Members": "Members when the list of channels was last read.",
    # Slack's own counts
    "Active members (Slack)": (
        "Members who read or wrote a message anywhere, private channels and direct messages too,"
        " as Slack counts them."
    ),
    "Slack": "As Slack counts, private channels and direct messages included.",
    "Counted here": "In the channels that are read.",
    "Members who viewed": "Members who opened the channel, as Slack counts them.",
    "Members who viewed (at least)": (
        "The most members who opened the channel in one of the spans of days that Slack counted."
    ),
    "Members who posted": "People who wrote at least one message in the channel.",
    "Messages (Slack)": "Messages in the channel, as Slack counts them.",
    "Messages counted here": "Messages that people wrote in the channel.",
    # threads
    "Threads started": "Messages of this period that have replies.",
    "% replies": "The share of messages that are replies in a thread.",
    "Replies": "Replies in threads that the other person started.",
    "Median time to first reply": (
        "Half of the threads that were answered had a reply by somebody else within this time."
    ),
    "90% answered within": (
        "Of the threads that were answered, nine in ten had a reply by somebody else within this"
        " time."
    ),
    "Unanswered": "Messages, not replies, that nobody else replied or reacted to.",
    "% unanswered": (
        "The share of messages, not counting replies, that nobody else replied or reacted to."
    ),
    "Replies to others": "Replies in threads that somebody else started.",
    "Replies to their threads": "Replies by others in threads that this person started.",
    "Number of replies": "Replies in the thread, whoever wrote them.",
    # reactions
    "Reactions": "Reactions to messages of this period.",
    "Reactions received": "Reactions to this person's messages.",
    "Reactions given": "Reactions by this person to messages of this period.",
    "Reactions per 1,000 words": "Reactions to messages, for every 1,000 words written.",
    "Messages with reactions": "The share of messages with at least one reaction.",
    "Different emoji": "How many different emoji were used as reactions.",
    "Times": "How often this emoji was used as a reaction.",
    "Share": "The share of all reactions.",
    "Per 1,000 words": "Uses for every 1,000 words written.",
    # interactions
    "Interactions": "Mentions, replies in threads and reactions, from one person to another.",
    "People who interacted": "People with at least one mention, reply or reaction, either way.",
    "People they interact with": "People with an interaction with this person, in any direction.",
    "Pairs": "Pairs of people with at least one interaction.",
    "Mutual pairs": "The share of pairs in which each interacted with the other.",
    "To others": "Mentions, replies and reactions by this person.",
    "From others": "Mentions of this person, and replies and reactions to them.",
    "Total": "Mentions, replies and reactions together.",
    "Replies from": "Replies by them in threads that this person started.",
    "Replies to": "Replies by this person in threads that they started.",
    # newcomers
    "Retention": "The share of the previous week's posters who posted again in the last week.",
    "Weekly posters": "People who posted in the last 7 days of the period.",
    "Monthly posters": "People who posted in the last 28 days of the period.",
    "Stickiness (weekly / monthly posters)": (
        "The share of the monthly posters who posted in the last week. The higher, the more often"
        " people post."
    ),
    "Active weeks": "Weeks in which this person posted.",
    "Retained": "Posted in this week and in the week before.",
    "First-time": "Posted for the first time ever known.",
    "Returning": "Posted in this week, not in the week before, but earlier.",
    "Lapsed": "Posted in the week before, but not in this week.",
    "Weekly retention": "The share of the previous week's posters who posted again.",
    "In the week": "People who posted in these 7 days.",
    "In four weeks": "People who posted in the 28 days that end with this week.",
    "People who joined": (
        "They joined their first channel then, as far as Slack posted a message about it."
    ),
    "Of them posted": "Of these, those who have written a message since.",
    "Of them answered": "Of these, those who got a reply or a reaction by somebody else.",
    "Of them regular": "Of these, those who have written in at least three different weeks.",
    "% posted": "The share of those who joined.",
    "% answered": "The share of those who joined.",
    "% regular": "The share of those who joined.",
    "Newcomers": "People whose first known message is in that week.",
    "Members of the workspace": "Accounts of people that are not deactivated, when last counted.",
    # to do
    "Messages answered": "Messages that somebody else replied or reacted to.",
    "Messages in the period before": "How much this person wrote before they stopped.",
    # charts
    "Joins and leaves": (
        "How often people joined or left a channel, as far as Slack posted a message about it."
    ),
    "Messages by weekday and hour": (
        "Each square is one hour of one weekday, by the authors' local time: the stronger its"
        " colour, the more messages."
    ),
    "Newcomers still posting": (
        "Each row is the people whose first message was in one week, which is their week 1. The"
        " stronger the colour, the larger the share of them who posted in a week."
    ),
    "Who interacts with whom": (
        "Each dot is a person, each line stands for mentions, replies and reactions: the more, the"
        " larger the dot and the thicker the line. Only the strongest are drawn; the tables have"
        " all."
    ),
    "From joining to writing regularly": (
        "Of the people who joined their first channel in four weeks: how many wrote a message"
        " since, how many of these got a reply or a reaction by somebody else, and how many wrote"
        " in at least three different weeks. Who joined lately had less time."
    ),
    "Time to first reply": "Threads by how long the first reply by somebody else took.",
}


def title_of(name: str) -> str:
    return TITLES.get(name) or name.replace("_", " ").capitalize()


def kind_of(name: str) -> Kind:
    return Kind.PERCENT if name.startswith("week_") else KINDS.get(name, Kind.COUNT)


def column(
    name: str, title: str = "", kind: Kind | None = None, *, bar: bool = False, phrase: str = " {}"
) -> Column:
    """A column with what its title means; ``title`` and ``kind`` where they are not the usual."""
    title = title or title_of(name)
    cumulative, about = name == "cpercent", GLOSSARY.get(title, "")
    return Column(name, title, kind or kind_of(name), bar, phrase, "", about, cumulative)
