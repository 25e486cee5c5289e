"""What an object holds on to, as the garbage collector sees it: for tests of memory."""

import gc
from typing import TypeVar

T = TypeVar("T")


def held_by(owner: object, kind: type[T]) -> list[T]:
    """The objects of exactly that type that `owner` refers to directly."""
    return [each for each in gc.get_referents(owner) if type(each) is kind]
