"""What happened in a period, in a few sentences: on top of Overview, in Slack and in mails.

Rule: a sentence has nothing but figures of the catalogue, each with how it changed.
"""

from collections.abc import Iterator

from channelstats.metrics import registry
from channelstats.metrics.metric import Metric
from channelstats.metrics.query import Scope, measured
from channelstats.metrics.table import Kind
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Line, Span


def summary(request: ViewRequest, *, is_own: bool = False) -> Iterator[Line]:
    """The sentences on a choice; ``is_own``: they are said to the person chosen."""
    scope = request.scope
    if not scope.now.messages.height:
        nothing = "This person wrote nothing." if scope.person else "Nobody wrote anything."
        yield ("You wrote nothing." if is_own else nothing,)
        return
    messages = _span(scope, registry.MESSAGES, "message")
    if scope.person:
        share = _span(scope, registry.SHARE_OF_MESSAGES)
        who: str | Span = "You" if is_own else Span(scope.person, Kind.PERSON, notify=False)
        yield (who, " wrote ", messages, ", ", share, f" of all messages{request.where}.")
        got = _span(scope, registry.ANSWERS, "reply"), _span(scope, registry.REACTIONS, "reaction")
        yield ("Others gave ", got[0], " and ", got[1], ".")
        return
    yield (_span(scope, registry.POSTERS, "person"), " wrote ", messages, ".")
    if scope.now.table("conversations")["seconds"].count():
        yield ("Half of the first answers came within ", _span(scope, registry.FIRST_REPLY), ".")
    if scope.now.follows_all_questions:
        yield ("Nobody answered ", _span(scope, registry.OPEN_QUESTIONS, "question"), ".")
    if scope.now.knows_newcomers:
        yield (_span(scope, registry.FIRST_TIME, "person"), " posted for the first time.")
    earlier = registry.newcomers_since(scope.now)
    if earlier.height:
        stayed = Span(earlier["ts"].count(), Kind.COUNT)
        newcomers = Span(earlier.height, Kind.COUNT, "newcomer")
        yield (stayed, " of ", newcomers, " of the period before posted again.")


def _span(scope: Scope, metric: Metric, label: str = "") -> Span:
    (now,), (before,) = (measured(part, metric) for part in scope)
    return Span(scope.change(now or 0, before), metric.kind, label)
