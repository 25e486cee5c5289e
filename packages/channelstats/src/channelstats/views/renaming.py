"""A view under other names.

Rule: whatever names a person, a channel, an emoji or a message is renamed, and nothing else is
touched; who is renamed cannot be found again in the view.
"""

from collections.abc import Callable, Mapping

import msgspec

from channelstats.views.model import (
    Cell,
    Chart,
    Choice,
    Edge,
    Kind,
    Network,
    Node,
    Table,
    View,
)

Renaming = Mapping[Kind, Callable[[str], str]]
"""For PERSON, CHANNEL, EMOJI and MESSAGE; a kind without one stays."""


def renamed(view: View, names: Renaming) -> View:
    """The view with other IDs and names."""

    def text(kind: Kind, of: str) -> str:
        return names[kind](of) if of and kind in names else of

    def table(of: Table) -> Table:
        kinds = [column.kind for column in of.columns]
        rows = tuple(tuple(map(cell, kinds, row)) for row in of.rows)
        return msgspec.structs.replace(of, rows=rows)

    def cell(kind: Kind, of: Cell) -> Cell:
        return text(kind, of) if isinstance(of, str) else of

    def person(of: str) -> str:
        return text(Kind.PERSON, of)

    def chart(of: Chart) -> Chart:
        if not isinstance(of, Network):
            return of
        return msgspec.structs.replace(
            of,
            nodes=tuple(Node(person(node.id), node.weight) for node in of.nodes),
            edges=tuple(Edge(person(one.one), person(one.other), one.weight) for one in of.edges),
        )

    chosen = view.choice
    return msgspec.structs.replace(
        view,
        choice=Choice(
            chosen.first, chosen.last, text(Kind.CHANNEL, chosen.channel), person(chosen.person)
        ),
        charts=tuple(map(chart, view.charts)),
        tables=tuple(map(table, view.tables)),
    )
