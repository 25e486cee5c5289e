"""The sum of what all connections hold of incomplete messages: the oldest are given up first."""

from hypothesis import given
from hypothesis import strategies as st

from autopush.net.client_limits import BufferedBytes


class Holder:
    def __init__(self, buffered: BufferedBytes) -> None:
        self.buffered = buffered
        self.held = 0
        self.given_up = 0

    def hold(self, size: int) -> None:
        self.held = size
        self.buffered.hold(self, size)

    def give_up(self) -> None:
        self.given_up += 1
        self.hold(0)


def test_the_message_that_is_incomplete_for_longest_is_given_up() -> None:
    reports: list[int] = []
    buffered = BufferedBytes(100, lambda: reports.append(1))
    old, young, new = Holder(buffered), Holder(buffered), Holder(buffered)
    old.hold(10)
    young.hold(80)
    old.hold(20)
    new.hold(1)
    assert (old.given_up, young.given_up, new.given_up) == (1, 0, 0)
    assert (buffered.total, len(reports)) == (81, 1)


def test_as_many_are_given_up_as_it_takes() -> None:
    buffered = BufferedBytes(100)
    small = [Holder(buffered) for _ in range(10)]
    for holder in small:
        holder.hold(10)
    large = Holder(buffered)
    large.hold(45)
    assert [holder.given_up for holder in small] == [1] * 5 + [0] * 5
    assert (large.given_up, buffered.total) == (0, 95)


def test_a_message_beyond_the_limit_is_given_up_itself() -> None:
    buffered = BufferedBytes(100)
    holder = Holder(buffered)
    holder.hold(101)
    assert (holder.given_up, buffered.total) == (1, 0)


def test_a_complete_message_is_young_again_with_the_next() -> None:
    buffered = BufferedBytes(100)
    first, second = Holder(buffered), Holder(buffered)
    first.hold(50)
    second.hold(50)
    first.hold(0)
    first.hold(51)
    assert (first.given_up, second.given_up) == (0, 1)


def test_without_a_limit_everything_is_held() -> None:
    buffered = BufferedBytes()
    holder = Holder(buffered)
    holder.hold(1 << 40)
    assert holder.given_up == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 120)), max_size=50))
def test_the_total_is_the_sum_and_within_the_limit(steps: list[tuple[int, int]]) -> None:
    buffered = BufferedBytes(100)
    holders = [Holder(buffered) for _ in range(5)]
    for which, size in steps:
        holders[which].hold(size)
        assert buffered.total == sum(holder.held for holder in holders) <= 100
