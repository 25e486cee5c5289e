"""What was sent, in words."""

from zoneinfo import ZoneInfo

from channelstats.identifiers import is_user_id
from channelstats.render.names import Directory
from channelstats.render.words import local, plural
from channelstats.sending.sender import Outcome, State


def named(directory: Directory, destination: str) -> str:
    """`#channel` or `@user`, or the ID of something unknown."""
    if destination in directory.channels:
        return f"#{directory.channel(destination)}"
    if destination in directory.people or is_user_id(destination):
        return f"@{directory.person(destination)}"
    return destination


def told_of(outcome: Outcome, zone: ZoneInfo) -> str:
    """sent, 3 messages; sent already on 2024-03-17 08:00."""
    if outcome.state is State.SENT:
        return f"sent, {outcome.messages:,} {plural(outcome.messages, 'message')}"
    if outcome.state is State.ALREADY:
        return f"sent already on {day_and_time(outcome.at, zone)}"
    return str(outcome.state)


def day_and_time(at: int, zone: ZoneInfo) -> str:
    return f"{local(at, zone):%Y-%m-%d %H:%M}"
