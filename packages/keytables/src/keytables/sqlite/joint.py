"""One answer for several writes.

The one rule: it comes when the last of them has its own, and is the first error among them.
"""

import asyncio

__all__ = ["Joint"]


class Joint:
    """Where ``count`` operations answer; ``future`` is what the caller awaits."""

    __slots__ = ("_count", "_error", "_future")

    def __init__(self, future: "asyncio.Future[None]", count: int) -> None:
        self._future, self._count = future, count
        self._error: Exception | None = None
        if not count:
            future.set_result(None)

    def done(self) -> bool:
        return False

    def set_result(self, _result: object, /) -> None:
        self._one()

    def set_exception(self, error: Exception, /) -> None:
        self._error = self._error or error
        self._one()

    def _one(self) -> None:
        self._count -= 1
        if self._count or self._future.done():
            return
        if self._error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)
