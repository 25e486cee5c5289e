"""What happened in a period, in a few sentences: on top of Overview, in Slack and in mails.

Rule: a sentence has nothing but figures of the catalogue, each with how it changed.
"""

from collections.abc import Iterator

from channelstats.pages import figures
from channelstats.metrics.registry import Figure
from channelstats.pages.loading import Comparison, ViewRequest
from channelstats.pages.model import Kind, Line, Span


def summary(request: ViewRequest, *, is_own: bool = False) -> Iterator[Line]:
    """The sentences on a choice; ``is_own``: they are said to the person chosen."""
    scope = request.scope
    if not scope.now.messages.height:
        nothing = "This person wrote nothing." if scope.person else "Nobody wrote anything."
        yield ("You wrote nothing." if is_own else nothing,)
        return
    messages = _span(scope, figures.MESSAGES, "message")
    if scope.person:
        share = _span(scope, figures.SHARE_OF_MESSAGES)
        who: str | Span = "You" if is_own else Span(scope.person, Kind.PERSON, notify=False)
        yield (who, " wrote ", messages, ", ", share, f" of all messages{request.where}.")
        got = _span(scope, figures.ANSWERS, "reply"), _span(scope, figures.REACTIONS, "reaction")
        yield ("Others gave ", got[0], " and ", got[1], ".")
        return
    yield (_span(scope, figures.POSTERS, "person"), " wrote ", messages, ".")
    waited = scope.now.waits.height > 0
    if waited:
        yield ("Half of the first answers came within ", _span(scope, figures.FIRST_REPLY), ".")
    if scope.now.open_questions is not None:
        yield ("Nobody answered ", _span(scope, figures.OPEN_QUESTIONS, "question"), ".")
    if figures.FIRST_TIME.measure(scope.now) is not None:
        yield (_span(scope, figures.FIRST_TIME, "person"), " posted for the first time.")


def _span(scope: Comparison, figure: Figure, label: str = "") -> Span:
    now, before = (figure.measure(of) for of in scope)
    return Span(scope.change(now or 0, before), figure.kind, label)
