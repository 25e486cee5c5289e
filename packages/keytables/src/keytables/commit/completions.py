"""What is told the outcome of a write: a future, a counter of several writes, or all of several."""

import asyncio
from collections.abc import Iterable
from typing import Protocol, TypeVar

E = TypeVar("E", bound=Exception)


class Completion(Protocol):
    def done(self) -> bool: ...
    def set_result(self, result: object, /) -> None: ...
    def set_exception(self, error: Exception, /) -> None: ...


class CompletionCounter:
    """One future for ``count`` operations, done after the last of them, with the first error."""

    __slots__ = ("_count", "_error", "_future")

    def __init__(self, future: "asyncio.Future[None]", count: int) -> None:
        self._future, self._count = future, count
        self._error: Exception | None = None
        if not count:
            future.set_result(None)

    def done(self) -> bool:
        return False

    def set_result(self, _result: object, /) -> None:
        self._count -= 1
        if self._count or self._future.done():
            return
        if self._error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)

    def set_exception(self, error: Exception, /) -> None:
        self._error = self._error or error
        self.set_result(None)


class FanOut:
    """The completions of several writes that one replaces: all get its outcome."""

    __slots__ = ("completions",)

    def __init__(self, *completions: Completion) -> None:
        self.completions = list(completions)

    def done(self) -> bool:
        return False

    def set_result(self, result: object, /) -> None:
        for completion in self.completions:
            if not completion.done():
                completion.set_result(result)

    def set_exception(self, error: Exception, /) -> None:
        for number, completion in enumerate(self.completions):
            if not completion.done():
                completion.set_exception(clone_error(error) if number else error)


class Answered:
    """In place of a completion that has its error."""

    def done(self) -> bool:
        return True

    def set_result(self, _: object, /) -> None: ...

    def set_exception(self, _: Exception, /) -> None: ...


def clone_error(error: E) -> E:
    # Each ``raise`` adds to the traceback of the error it raises.
    clone = type(error).__new__(type(error), *error.args)
    clone.__dict__.update(error.__dict__)
    clone.__cause__ = error
    return clone


def wake(waiters: Iterable["asyncio.Future[None]"]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
