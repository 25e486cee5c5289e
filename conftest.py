"""Names of parametrized tests: the same in every process, so that they can be shared out.

Rule: bytes, sets and long texts are not in a name; some of them are keys made at random.
"""

import pytest

LONGEST = 40


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """The argument's name in place of such a value; pytest numbers those that are alike."""
    is_long = isinstance(val, str) and len(val) > LONGEST
    return argname if is_long or isinstance(val, bytes | set | frozenset) else None
