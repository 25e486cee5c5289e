"""Calls that silent nodes missed: repeated, in batches, bounded, given up in the end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from autopush.delivery import peers
from autopush.delivery.calls import CheckStorage, NodeCall, Outcome
from autopush.delivery.peers import PendingCalls

DONE, SILENT = Outcome.DONE, Outcome.SILENT
NODE, OTHER = "http://one:8081", "http://two:8081"


class FakeNodes:
    """Answer as `answer` says; `calls` counts the calls, `batches` those made at the same time."""

    def __init__(self) -> None:
        self.answers: dict[str, Outcome] = {}
        self.answer: Callable[[str, str], Outcome] = lambda node, uaid: self.answers[node]
        self.calls: Counter[tuple[str, str]] = Counter()
        self.batches: list[int] = []
        self._open = 0
        self._answered = asyncio.Event()

    async def call(self, node_id: str, call: NodeCall) -> Outcome:
        self.calls[node_id, call.uaid] += 1
        self._open += 1
        await asyncio.sleep(0)
        if self._open:
            self.batches.append(self._open)
            self._open = 0
        answer = self.answer(node_id, call.uaid)
        self._answered.set()
        return answer

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self._answered.clear()
                await self._answered.wait()

    def count(self, node_id: str) -> int:
        return sum(count for (node, _), count in self.calls.items() if node == node_id)


@pytest.fixture(autouse=True)
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0)


@pytest.fixture
def nodes() -> FakeNodes:
    return FakeNodes()


@pytest.fixture
async def pending(nodes: FakeNodes) -> AsyncIterator[PendingCalls]:
    calls = PendingCalls(nodes.call)
    yield calls
    calls.close()


async def test_a_call_is_repeated_until_the_node_answers(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    answers = [SILENT, SILENT, DONE]
    nodes.answer = lambda node, uaid: answers.pop(0)
    pending.add(NODE, CheckStorage("u"))
    await pending.finished(5)
    assert nodes.calls == {(NODE, "u"): 3}
    assert len(pending) == 0


@pytest.mark.parametrize("answer", [Outcome.DONE, Outcome.BUSY, Outcome.ABSENT])
async def test_any_answer_completes_a_call(
    nodes: FakeNodes, pending: PendingCalls, answer: Outcome
) -> None:
    nodes.answers[NODE] = answer
    for uaid in "abc":
        pending.add(NODE, CheckStorage(uaid))
    await pending.finished(5)
    assert nodes.calls == {(NODE, uaid): 1 for uaid in "abc"}


async def test_a_silent_node_gets_one_call_at_a_time(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    nodes.answers[NODE] = SILENT
    for number in range(50):
        pending.add(NODE, CheckStorage(str(number)))
    await nodes.until(lambda: nodes.count(NODE) > 100)
    assert set(nodes.batches) == {1}
    assert min(nodes.calls.values()) >= 2, "they take turns"


async def test_a_node_that_answers_again_gets_the_other_calls_in_batches(
    nodes: FakeNodes, pending: PendingCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "CONCURRENT_REPEATS", 20)
    nodes.answers[NODE] = DONE
    for number in range(50):
        pending.add(NODE, CheckStorage(str(number)))
    await pending.finished(5)
    assert set(nodes.calls.values()) == {1}
    assert len(nodes.calls) == 50
    assert nodes.batches == [1, 20, 20, 9]


async def test_a_silent_node_delays_no_other(nodes: FakeNodes, pending: PendingCalls) -> None:
    nodes.answers = {NODE: SILENT, OTHER: DONE}
    for number in range(20):
        pending.add(NODE, CheckStorage(str(number)))
    pending.add(OTHER, CheckStorage("u"))
    await nodes.until(lambda: nodes.count(OTHER) == 1)


async def test_the_calls_of_an_unreachable_node_are_made_once_and_dropped(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    nodes.answers[NODE] = Outcome.GONE
    for number in range(20):
        pending.add(NODE, CheckStorage(str(number)))
    await pending.finished(5)
    assert nodes.count(NODE) == 20
    assert len(pending) == 0


async def test_a_call_that_is_added_while_it_is_made_is_made_again(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    """The node may have read storage before the newer message was stored."""

    def answer(node: str, uaid: str) -> Outcome:
        if nodes.calls[node, uaid] == 1:
            pending.add(node, CheckStorage(uaid))
        return DONE

    nodes.answer = answer
    pending.add(NODE, CheckStorage("u"))
    await pending.finished(5)
    assert nodes.calls == {(NODE, "u"): 2}


async def test_a_node_that_is_silent_for_a_second_time_is_called_again(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    for _ in range(2):
        nodes.calls.clear()
        answers = [SILENT, DONE]
        nodes.answer = lambda node, uaid, answers=answers: answers.pop(0)  # type: ignore[misc]
        pending.add(NODE, CheckStorage("u"))
        await pending.finished(5)
        assert nodes.calls == {(NODE, "u"): 2}


async def test_a_node_that_stays_silent_for_long_is_given_up(
    nodes: FakeNodes, pending: PendingCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PENDING_TIMEOUT", 0.01)
    nodes.answers[NODE] = SILENT
    pending.add(NODE, CheckStorage("a"))
    pending.add(NODE, CheckStorage("b"))
    await pending.finished(5)
    assert nodes.count(NODE) >= 1
    assert len(pending) == 0


async def test_the_number_of_pending_calls_is_bounded_for_all_nodes_together(
    nodes: FakeNodes, pending: PendingCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "MAX_PENDING", 3)
    nodes.answers = {NODE: DONE, OTHER: DONE}
    for uaid in "ab":
        pending.add(NODE, CheckStorage(uaid))
        pending.add(OTHER, CheckStorage(uaid))
    assert len(pending) == 3
    await pending.finished(5)
    pending.add(OTHER, CheckStorage("b"))
    await pending.finished(5)
    assert nodes.calls == dict.fromkeys([(NODE, "a"), (NODE, "b"), (OTHER, "a"), (OTHER, "b")], 1)


async def test_finished_waits_until_none_is_pending(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    answers = {NODE: [SILENT, SILENT, DONE], OTHER: [SILENT, DONE]}
    nodes.answer = lambda node, uaid: answers[node].pop(0)
    pending.add(NODE, CheckStorage("u"))
    pending.add(OTHER, CheckStorage("u"))
    await pending.finished(5)
    assert nodes.calls == {(NODE, "u"): 3, (OTHER, "u"): 2}


async def test_finished_waits_no_longer_than_it_should(
    nodes: FakeNodes, pending: PendingCalls
) -> None:
    nodes.answers[NODE] = SILENT
    pending.add(NODE, CheckStorage("u"))
    await nodes.until(lambda: nodes.count(NODE) >= 1)
    async with asyncio.timeout(30):
        await pending.finished(0.01)
    assert len(pending) <= 1


async def test_close_drops_what_is_pending(nodes: FakeNodes, pending: PendingCalls) -> None:
    nodes.answers[NODE] = SILENT
    pending.add(NODE, CheckStorage("u"))
    await nodes.until(lambda: nodes.count(NODE) >= 1)
    pending.close()
    assert len(pending) == 0
    calls = nodes.count(NODE)
    for _ in range(20):
        await asyncio.sleep(0)
    assert nodes.count(NODE) == calls
