"""Break the source at random places, one at a time, and list what no unit test notices.

Run it from the root of the project: `.venv/bin/python -m tests.mutants --count 300`. It records
which tests execute which lines, once for each state of the sources, and then forks a process for
each mutant that runs only the tests of its line.
"""

import argparse
import ast
import functools
import hashlib
import importlib
import importlib.machinery
import json
import multiprocessing
import operator
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path.cwd()
AUTOPUSH: Final = "packages/autopush/src/autopush"
SOURCES: Final = ["packages/keytables/src/keytables", f"{AUTOPUSH}/limits.py"] + [
    f"{AUTOPUSH}/{name}" for name in ("protocol", "delivery", "store", "api", "webpush", "net")
]
TESTS: Final = ["packages/autopush/tests", "packages/keytables/tests"]
OTHER_TESTS: Final = ("e2e", "faults", "simulation", "bridges", "commands", "telemetry", "settings")
UNTESTED: Final = "postgresql"
"""A folder of sources whose tests need a server."""
SERVERS: Final = "not postgres and not ministack and not dynalite"
TIMEOUT: Final = 60.0
HANGS: Final = "8"
"""Seconds, for a test; those chosen take a fraction of one."""
MEMORY: Final = 6 << 30
OURS: Final = 10
"""Added to the exit code of a fork."""
BATCHES: Final = ((60, 2.0), (400, 25.0))
"""For a mutant: the largest number of tests, and the seconds that they took when recorded."""

Row = dict[str, Any]
Test = tuple[str, float, dict[str, list[int]]]
"""Its name, the seconds it takes, and the lines of the sources that it executes, by file."""
SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
NEGATED_BY_SWAP: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
UNTOUCHED_FIELDS: Final = {"annotation", "returns", "decorator_list", "type_params", "bases"}
REPORTING: Final = {"log", "logger", "logging", "metrics", "counters", "warnings"}


def is_report(node: ast.AST) -> bool:
    """Whether it is a call that logs or counts."""
    parts = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else []
    return any(part.strip("_") in REPORTING for part in parts)


def negated(value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), value), value)


def mutations(tree: ast.AST) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """The line, the description and the function that changes the tree, of each mutation."""
    if is_report(tree):
        return
    line = getattr(tree, "lineno", 0)

    def change(description: str, field: str, value: object) -> tuple[int, str, Callable[[], None]]:
        return line, description, lambda: setattr(tree, field, value)

    match tree:
        case ast.Compare(ops=[op]) | ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op):
            if (other := SWAPPED.get(type(op))) and "'" not in ast.unparse(tree):
                is_list, name = isinstance(tree, ast.Compare), type(op).__name__
                field, value = ("ops", [other()]) if is_list else ("op", other())
                yield change(f"{name} to {other.__name__}", field, value)
        case ast.Constant(value=bool(value)):
            yield change(f"{value} to {not value}", "value", not value)
        case ast.Constant(value=int(value)):
            yield change(f"{value} to {value + 1}", "value", value + 1)
        case ast.Return(value=ast.Compare() | ast.BoolOp() as result):
            yield change("negate the result", "value", negated(result))
        case ast.Return(value=ast.expr() as result) if not isinstance(result, ast.Constant):
            yield change("return None", "value", ast.copy_location(ast.Constant(None), result))
    test = getattr(tree, "test", None)
    if isinstance(test, ast.expr) and not isinstance(tree, ast.Assert):
        swap = isinstance(test, ast.Compare) and isinstance(test.ops[0], NEGATED_BY_SWAP)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield change("drop not", "test", test.operand)
        elif not swap and "TYPE_CHECKING" not in ast.unparse(test):
            yield change("negate the condition", "test", negated(test))
    for field, value in ast.iter_fields(tree):
        if field in UNTOUCHED_FIELDS:
            continue
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Call | ast.Await):
                call = child.value.value if isinstance(child.value, ast.Await) else child.value
                nothing = ast.copy_location(ast.Pass(), child)
                if not is_report(call):
                    delete = lambda at=children, i=index, new=nothing: operator.setitem(at, i, new)  # noqa: E731
                    yield child.lineno, "delete the statement", delete
            if isinstance(child, ast.AST):
                yield from mutations(child)


def all_mutants() -> list[Row]:
    """Each of the sources' mutants; `number` tells those apart that read alike."""
    rows: list[Row] = []
    for source in SOURCES:
        path = ROOT / source
        files = [path] if path.suffix else sorted(path.rglob("*.py"))
        for file in (file for file in files if file.parent.name != UNTESTED):
            name, lines = str(file.relative_to(ROOT)), file.read_text().splitlines()
            seen: dict[tuple[str, str], int] = defaultdict(int)
            for index, (line, mutation, _) in enumerate(mutations(ast.parse(file.read_text()))):
                text = lines[line - 1].strip()
                row = {"file": name, "line": line, "text": text, "mutation": mutation}
                rows.append({**row, "number": seen[text, mutation], "index": index})
                seen[text, mutation] += 1
    return rows


def key(row: Row) -> tuple[Any, ...]:
    return row["file"], row["text"], row["mutation"], row["number"]


def mutated(row: Row) -> types.CodeType:
    path = ROOT / row["file"]
    tree = ast.parse(path.read_text())
    list(mutations(tree))[row["index"]][2]()
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


class Recorder:
    """A plugin of pytest: the seconds and the executed lines of the sources, for each test."""

    def __init__(self) -> None:
        self.tests: list[Test] = []
        self._files = {str(ROOT / row["file"]): row["file"] for row in all_mutants()}
        self._lines: dict[str, set[int]] = defaultdict(set)
        self._failed = False

    def _trace(self, frame: types.FrameType, event: str, _: object) -> Any:
        if (file := self._files.get(frame.f_code.co_filename)) is None:
            return None
        add = self._lines[file].add
        add(frame.f_lineno)

        def local(frame: types.FrameType, event: str, _: object) -> Any:
            add(frame.f_lineno)
            return local

        return local

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._failed, self._lines = False, defaultdict(set)
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        start = time.monotonic()
        result = yield
        seconds = time.monotonic() - start
        sys.settrace(None)
        if not self._failed:
            lines = {file: sorted(numbers) for file, numbers in self._lines.items()}
            self.tests.append((item.nodeid, seconds, lines))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or not report.passed


class Unshrunk:
    """A plugin: examples of Hypothesis are the same each time, and are not made smaller."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")


def run_tests(words: Sequence[str], plugins: Iterable[object], log: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        with log.open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/tests"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--timeout", HANGS]
        options += ["-m", "not slow and not browser"]
        return int(pytest.main([*options, *words], plugins=[Unshrunk(), *plugins]))


def in_a_fork(work: Callable[[], int], timeout: float) -> bool:
    """Whether `work` returns something else than 0, or takes longer."""

    def run() -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os._exit(OURS + work())  # Python's own is 1

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(timeout)
    with suppress(ProcessLookupError):  # with what the tests have started
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode != 1
    return process.exitcode != OURS


def recorded(folder: Path) -> tuple[list[str], list[Test]]:
    """The names of the libraries that the tests import, and the tests; from a former run if
    nothing has changed since.
    """
    files = [path for each in SOURCES + TESTS for path in sorted((ROOT / each).rglob("*.py"))]
    state = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    path = folder / f"mutants-{state}.json"

    def record() -> int:
        recorder = Recorder()
        ignored = [f"--ignore-glob=*/tests/{name}" for name in OTHER_TESTS]
        run_tests([*TESTS, *ignored, "-k", SERVERS], [recorder], folder / "mutants.log")
        places = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
        libraries = [name for name, file in places.items() if file and "/site-packages/" in file]
        path.write_text(json.dumps([libraries, recorder.tests]))
        return 0

    if not path.exists():
        print("recording which tests execute which lines …", flush=True)
        in_a_fork(record, 1800)
    libraries, tests = json.loads(path.read_text())
    return libraries, tests


def batches(row: Row, tests: list[Test]) -> Iterator[list[str]]:
    """Tests that execute its line, the quickest of its own folder first. For a line that is
    executed when the module is imported, those that execute any of the module.
    """
    covering = [test for test in tests if row["line"] in test[2].get(row["file"], [])]
    covering = covering or [test for test in tests if test[2].get(row["file"])]
    folder = f"/{Path(row['file']).parent.name}/"
    covering.sort(key=lambda test: (folder not in test[0], test[1]))
    for count, seconds in BATCHES:
        batch: list[str] = []
        while covering and len(batch) < count and seconds > 0:
            name, duration, _ = covering.pop(0)
            seconds -= duration
            batch.append(name)
        if batch:
            yield batch


def is_killed(row: Row, tests: list[Test], log: Path) -> bool:
    code, path = mutated(row), str(ROOT / row["file"])
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> Any:
        return code if loader.path == path else original(loader, name)

    def run(names: list[str]) -> int:
        importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
        return run_tests(["-x", *names], [], log)

    return any(in_a_fork(functools.partial(run, names), TIMEOUT) for names in batches(row, tests))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--out", type=Path, help="a file for the results, as JSON lines")
    parser.add_argument("--again", type=Path, help="run the mutants of this file that still exist")
    parser.add_argument("--survivors", action="store_true", help="of --again, those that survived")
    parser.add_argument("--work", type=Path, default=ROOT / ".pytest_cache", help="for recordings")
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    libraries, tests = recorded(options.work)
    for name in libraries:
        if not name.startswith(("pytest", "_pytest", "xdist", "hypothesis", "_hypothesis")):
            with suppress(Exception):
                importlib.import_module(name)
    rows = all_mutants()
    if options.again:
        former = [json.loads(line) for line in options.again.read_text().splitlines()]
        former = [row for row in former if not (options.survivors and row["killed"])]
        present = {key(row): row for row in rows}
        chosen = [present[key(row)] for row in former if key(row) in present]
        print(f"{len(chosen)} of {len(former)} mutants still exist")
    else:
        chosen = random.Random(options.seed).sample(rows, min(options.count, len(rows)))
    killed, start = 0, time.monotonic()
    with options.out.open("w") if options.out else open(os.devnull, "w") as out:
        for count, row in enumerate(chosen, 1):
            began = time.monotonic()
            row["killed"] = is_killed(row, tests, options.work / "mutants.log")
            row["seconds"] = round(time.monotonic() - began, 1)
            killed += row["killed"]
            print(json.dumps(row), file=out, flush=True)
            if not row["killed"]:
                print(f"{row['file']}:{row['line']}: {row['mutation']}: {row['text']}", flush=True)
            if count % 50 == 0 or count == len(chosen):
                rate = (time.monotonic() - start) / count
                print(f"{killed} of {count} killed, {rate:.1f} s each", flush=True)


if __name__ == "__main__":
    main()
