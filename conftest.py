"""What holds for the tests of all packages: names, order, processes, and how skipped tests are
reported.
"""

import gc
import os
import random
import signal
import sys
from asyncio import selector_events
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.chromium"]
"""For its fixture `browser`."""

# On a machine that is busy any example may take long. 100 examples are Hypothesis's own number; a
# newcomer has fewer to wait for.
EXAMPLES = 100 if os.environ.get("CI") else 30
settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# A run starts hundreds of processes; without bytecode each would compile the packages again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Polars makes its threads when it is imported. Tests look at few rows, which several threads would
# only hand to each other; it is the processes that use all cores.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

LONGEST_NAME = 40


OPEN_TRANSPORTS: WeakSet[Any] = WeakSet()


def pytest_configure() -> None:
    """Keep the transports that asyncio makes for sockets in OPEN_TRANSPORTS, and close a connection
    whose server is closed while it is accepted: asyncio would leave its client waiting, and the
    socket to the garbage collector.
    """
    transport = getattr(selector_events, "_SelectorTransport")  # noqa: B009 - it has no type
    make = transport.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except AssertionError:
            self._sock.close()
            self._sock = None
            raise
        OPEN_TRANSPORTS.add(self)

    transport.__init__ = noted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail the test whose event loop ended before its connections: the garbage collector would
    find them during another test, and fail that one. Of those that were closing only the last turn
    of the loop is missing.
    """
    yield
    left = []
    # A copy made at once, as other threads make transports too, and close them.
    references = OPEN_TRANSPORTS.data.copy()  # type: ignore[attr-defined]
    for transport in filter(None, [reference() for reference in references]):
        loop = transport._loop
        if loop is None or transport._sock is None:
            OPEN_TRANSPORTS.discard(transport)
        elif loop.is_closed():
            if not transport.is_closing():
                left.append(transport)
            transport._sock.close()
            transport._sock = None
    assert not left, "open when their loop was closed"


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """The argument's name in place of bytes, sets and long texts; pytest numbers those alike.

    Rule: a name is the same in every process, or the processes cannot share the tests. Sets show
    their members in any order, and some of the bytes and texts are random keys.
    """
    is_long = isinstance(val, str) and len(val) > LONGEST_NAME
    return argname if is_long or isinstance(val, bytes | set | frozenset) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let signals arrive, in the test and in the processes that it starts, and SIGINT interrupt.

    A shell that starts the tests in the background has them ignore SIGINT, and a closed event loop
    of uvloop leaves its handler in place. A service that is composed in this process blocks signals
    until it has handlers for them, which a test may not come to.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes for a core, since tests also wait; at most eight."""
    return min(2 * (os.cpu_count() or 1), 8)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="shuffle the modules and the tests of each; the same number gives the same order",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    seed: int | None = config.getoption("--shuffle")
    return None if seed is None else f"shuffled: --shuffle {seed} gives this order again"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from the collected tests, which all stay: it would go through
    them again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Have each process begin the collection at another folder and module.

    The first that imports a test module rewrites its assertions and caches the bytecode. In the
    same order all would do so for every module at the same time.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and report.passed and isinstance(collector, pytest.Directory):
        number = int(worker["workerid"].removeprefix("gw"))
        start = number * len(report.result) // worker["workercount"]
        report.result = [*report.result[start:], *report.result[:start]]
    return report


def declared_limit(item: pytest.Item) -> float:
    """Seconds that a test may take, if it declares more than others have."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None and marker.args else 0.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the modules that may take longest, or one process would end with them while the
    others have nothing left. Or shuffle. The tests of a module stay together, because what they
    share is costly to start.
    """
    modules: dict[Path, list[pytest.Item]] = {}
    # Sorted, since each process collects them in an order of its own.
    for item in sorted(items, key=lambda item: item.path):
        modules.setdefault(item.path, []).append(item)
    order = list(modules.values())
    seed: int | None = config.getoption("--shuffle")
    if seed is None:
        order.sort(key=lambda tests: max(map(declared_limit, tests)), reverse=True)
    else:
        shuffled = random.Random(seed)  # noqa: S311
        shuffled.shuffle(order)
        for tests in order:
            shuffled.shuffle(tests)
    items[:] = [item for tests in order for item in tests]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason to skip tests, however many there are."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        assert isinstance(report.longrepr, tuple)
        reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"not run: {count} test{'s' * (count > 1)}: {reason}")
