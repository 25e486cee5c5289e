"""Several answers for one write.

The one rule: each who waits gets the answer as if it were theirs alone.
"""

from keytables.sqlite.operations import Sink

__all__ = ["Shared", "again"]


class Shared:
    """Passes the answer of an operation on to several; a sink itself."""

    __slots__ = ("sinks",)

    def __init__(self, first: Sink) -> None:
        self.sinks = [first]

    def done(self) -> bool:
        return False

    def set_result(self, result: object, /) -> None:
        for sink in self.sinks:
            if not sink.done():
                sink.set_result(result)

    def set_exception(self, error: Exception, /) -> None:
        for number, sink in enumerate(self.sinks):
            if not sink.done():
                sink.set_exception(again(error) if number else error)


def again(error: Exception) -> Exception:
    """Return an equal error: one each, because a traceback grows wherever it is raised."""
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    own.__cause__ = error
    return own
