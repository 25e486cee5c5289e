"""Many cases of a rule in one test."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def cases(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """As `pytest.mark.parametrize`, but the cases follow each other in one test, with the same
    fixtures. A failure names its case.

    Rule: for cases that take less time than a test around them, and leave nothing to the next.
    """
    names = [names] if isinstance(names, str) else list(names)
    rows = [dict(zip(names, row if len(names) > 1 else [row], strict=True)) for row in values]
    assert rows

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            async def run_all(**fixtures: Any) -> None:
                for row in rows:
                    with _named(row):
                        await test(**fixtures, **row)

        else:

            def run_all(**fixtures: Any) -> None:  # type: ignore[misc]
                for row in rows:
                    with _named(row):
                        test(**fixtures, **row)

        functools.update_wrapper(run_all, test)
        del run_all.__wrapped__  # type: ignore[attr-defined] # else pytest looks at its signature
        signature = inspect.signature(test)
        fixtures = [each for each in signature.parameters.values() if each.name not in names]
        run_all.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run_all

    return decorate


@contextmanager
def _named(row: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {row}")
        raise
