"""How much was said, over time, against the period before.

Rule: the points add up to the tiles, but for people: who posts in two weeks is one poster.
"""

from channelstats.board import figures
from channelstats.board.asked import Asked, Parts
from channelstats.board.model import Kind
from channelstats.board.pieces import MESSAGES, POSTERS, WORDS, over_time, table_of, tile
from channelstats.stats.quantities import ratio


def view(asked: Asked) -> Parts:
    scope = asked.scope
    charts = [
        over_time(scope, "messages", "Messages", Kind.COUNT, MESSAGES),
        over_time(scope, "words", "Words", Kind.COUNT, WORDS),
    ]
    tiles = [
        tile(scope, "messages", "Messages", Kind.COUNT, figures.messages),
        tile(scope, "words", "Words", Kind.COUNT, figures.words),
        tile(
            scope,
            "words_per_message",
            "Words per message",
            Kind.NUMBER,
            lambda of: ratio(figures.words(of), figures.messages(of)),
        ),
    ]
    if not scope.person:
        charts.append(over_time(scope, "posters", "People posting", Kind.COUNT, POSTERS))
        tiles.append(tile(scope, "posters", "People posting", Kind.COUNT, figures.posters))
    return Parts(
        lead="How much was said, and how many said it, against as many days before.",
        tiles=tuple(tiles),
        charts=tuple(charts),
        tables=(table_of("volume", "Over time", {chart.name: chart for chart in charts}),),
    )
