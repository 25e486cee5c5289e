"""How much was said, over time, against the period before.

Rule: the points add up to the tiles, but for people: who posts in two weeks is one poster.
"""

from channelstats.stats.quantities import ratio
from channelstats.views import figures
from channelstats.views.components import MESSAGES, POSTERS, WORDS, over_time, table_of, tile
from channelstats.views.model import Kind
from channelstats.views.request import ViewContent, ViewRequest


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
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
        charts.append(over_time(scope, "posters", "People who posted", Kind.COUNT, POSTERS))
        tiles.append(tile(scope, "posters", "People who posted", Kind.COUNT, figures.posters))
    return ViewContent(
        lead="How much was written and by how many people, compared with the period before.",
        tiles=tuple(tiles),
        charts=tuple(charts),
        tables=(table_of("volume", "Over time", {chart.name: chart for chart in charts}),),
    )
