"""What the files of a channel hold, as rows, a piece at a time.

Rule: pure reading; it needs nothing but the export, so it can be done anywhere.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from channelstats.ingest.message_row import Origin, row_of
from channelstats.ingest.people import user_of_profile
from channelstats.ingest.threads import settle
from channelstats.slack.export import Export, ExportChannel, Problem, left_out
from channelstats.slack.objects import Named
from channelstats.tables.directory import User
from channelstats.tables.message_row import MessageRow

ROWS: Final = 8_000
"""Rows of a piece."""


class Piece(msgspec.Struct, array_like=True):
    """Some of the rows of a channel, of ``total``. The first one brings, of all, the ``authors`` as
    profiles beside messages have them, and what was wrong.
    """

    rows: list[MessageRow]
    total: int
    authors: list[User] = []
    problems: list[Problem] = []
    is_last: bool = True


def pieces(
    export: Export, channel: ExportChannel, origin: Origin, *, alone: bool
) -> Iterator[Piece]:
    """At least one. With ``alone``, where nothing of the channel is stored, the rows are those to
    store, in the order of time; else they are as they are in the files.
    """
    first = _read(export, channel, origin)
    rows = [row for row, _ in settle({}, first.rows)] if alone else first.rows
    first.total = len(rows)
    for begin in range(0, max(len(rows), 1), ROWS):
        piece = Piece([], len(rows)) if begin else first
        piece.rows = rows[begin : begin + ROWS]
        piece.is_last = begin + ROWS >= len(rows)
        yield piece


def _read(export: Export, channel: ExportChannel, origin: Origin) -> Piece:
    rows: list[MessageRow] = []
    profiles: dict[str, Named] = {}
    problems: list[Problem] = []
    for place, messages in export.messages(channel):
        reasons = []
        for message in messages:
            if message.type != "message":
                continue
            try:
                row = row_of(message, origin)
            except ValueError as error:
                reasons.append(str(error))
                continue
            rows.append(row)
            if message.user_profile is not None and row.slack_uid and not row.is_bot:
                profiles[row.slack_uid] = message.user_profile
        problems += left_out(place, reasons)
    authors = [user_of_profile(uid, profile) for uid, profile in profiles.items()]
    return Piece(rows, len(rows), authors, [*export.problems(), *problems])
