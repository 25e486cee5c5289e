import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autopush.webpush.cache import GenerationCache

Steps = list[tuple[bool, int]]


@given(st.integers(2, 9), st.lists(st.tuples(st.booleans(), st.integers(0, 20))))
def test_the_bound_holds_and_no_value_is_ever_wrong(size: int, steps: Steps) -> None:
    cache: GenerationCache[int, str] = GenerationCache(size)
    for put, key in steps:
        if put:
            cache.put(key, str(key))
        else:
            assert cache.get(key) in (None, str(key))
        assert len(cache) <= size


@given(st.integers(2, 9), st.lists(st.integers(0, 9), min_size=1))
@example(4, [0, 1, 2, 3, 0, 4])  # what is found in the old generation has to move on
def test_the_half_used_last_is_always_kept(size: int, keys: list[int]) -> None:
    cache: GenerationCache[int, str] = GenerationCache(size)
    for key in keys:
        if cache.get(key) is None:
            cache.put(key, str(key))
    newest = list(dict.fromkeys(reversed(keys)))[: size // 2]
    assert [cache.get(key) for key in newest] == [str(key) for key in newest]


def test_a_bound_too_small_for_two_generations_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        GenerationCache[int, int](1)
