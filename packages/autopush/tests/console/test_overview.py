"""What the page Now shows of all workers together, also while one of them stands still."""

from pathlib import Path
from typing import cast

from autopush.console.overview import SHARES, Overview, WorkerShare
from autopush.delivery.bridged import CircuitState
from autopush.net.siblings import Port, Sibling, Siblings, SiblingSilent
from autopush.settings import Settings
from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import SharedMetrics
from support.clocks import ManualClock

WORKS, OPEN = CircuitState("fcm", "app", False, 0), CircuitState("apns", "app", True, 3)


class Worker:
    """Another one; with no share it stands still."""

    def __init__(self, share: WorkerShare | None) -> None:
        self._share = share

    async def call(self, port: Port[None, WorkerShare], asked: None) -> WorkerShare:
        assert port is SHARES
        if self._share is None:
            raise SiblingSilent
        return self._share


async def test_senders_and_circuits_of_all_workers_are_shown_together(tmp_path: Path) -> None:
    own, clock = WorkerShare([WORKS], {"ours": 2, "both": 1}), ManualClock()
    other = WorkerShare([OPEN], {"both": 4})
    workers = Siblings(cast(dict[int, Sibling], {1: Worker(other), 2: Worker(None)}))
    overview = Overview(
        SharedMetrics(METRICS, 3),
        Settings(data=tmp_path),
        workers,
        None,
        lambda: own,
        lambda: None,
        None,
        clock,
        monotonic=clock,
    )
    document = await overview.document()
    assert document["busy_senders"] == {"both": 5, "ours": 2}
    assert [each["bridge"] for each in cast(list[dict[str, str]], document["bridges"])] == [
        "apns",
        "fcm",
    ]
    assert document["unanswered"] == 1
