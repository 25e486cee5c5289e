"""Break the source at random places, one at a time, and list what no unit test notices.

From the root of the project: `.venv/bin/python -m tests.mutants --count 300`. It records which
tests execute which lines, once for each state of the sources, and then forks a process for each
mutant that runs only the tests of its line.
"""

import argparse
import ast
import functools
import hashlib
import importlib
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path.cwd()
SOURCES: Final = ["packages/keytables/src/keytables"] + [
    f"packages/autopush/src/autopush/{name}"
    for name in ("limits.py", "protocol", "delivery", "store", "api", "webpush", "net")
]
TESTS: Final = ["packages/autopush/tests", "packages/keytables/tests"]
OTHER_TESTS: Final = "e2e faults simulation bridges commands telemetry settings".split()  # noqa: SIM905
NO_SERVERS: Final = "not postgres and not ministack and not dynalite"
UNTESTED: Final = "postgresql"
"""A folder of sources whose tests need a server."""
BATCHES: Final = ((60, 2.0), (400, 25.0))
"""For a mutant: the largest number of tests, and the seconds that they took when recorded."""
TIMEOUT, HANGS, MEMORY = 60.0, "8", 6 << 30
"""Seconds for a batch and for a test, and bytes for its process."""
OURS: Final = 10
"""Added to pytest's exit code, which Python's own then differs from."""
PAIRS: Final = "Lt LtE Gt GtE Eq NotEq Is IsNot In NotIn And Or Add Sub".split()  # noqa: SIM905
SWAPPED: Final = dict(zip(PAIRS[::2] + PAIRS[1::2], PAIRS[1::2] + PAIRS[::2], strict=True))
UNTOUCHED: Final = {"annotation", "returns", "decorator_list", "type_params", "bases"}
REPORTING: Final = {"log", "logger", "logging", "metrics", "counters", "warnings"}

Row = dict[str, Any]
Test = tuple[str, float, dict[str, list[int]]]
"""Its name, the seconds it takes, and the lines of the sources that it executes, by file."""
Mutation = tuple[int, str, Callable[[], None]]
"""The line, what is done there, and the function that does it to the tree."""


def is_report(node: ast.AST) -> bool:
    """Whether it is a call that logs or counts."""
    parts = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else []
    return any(part.strip("_") in REPORTING for part in parts)


def own_mutations(node: Any) -> Iterator[tuple[str, str, object]]:
    """What is done, and the field of the node with its new value."""
    test = getattr(node, "test", None)
    match node:
        case ast.Compare(ops=[op]) | ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op):
            name = type(op).__name__
            if (other := SWAPPED.get(name)) and "'" not in ast.unparse(node):
                new, is_list = getattr(ast, other)(), isinstance(node, ast.Compare)
                yield f"{name} to {other}", "ops" if is_list else "op", [new] if is_list else new
        case ast.Constant(value=bool(value)):
            yield f"{value} to {not value}", "value", not value
        case ast.Constant(value=int(value)):
            yield f"{value} to {value + 1}", "value", value + 1
        case ast.Return(value=ast.Compare() | ast.BoolOp() as result):
            yield "negate the result", "value", ast.UnaryOp(ast.Not(), result)
        case ast.Return(value=ast.expr() as result) if not isinstance(result, ast.Constant):
            yield "return None", "value", ast.Constant(None)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield "drop not", "test", test.operand
    elif isinstance(test, ast.expr) and not isinstance(node, ast.Assert):
        is_swapped = isinstance(test, ast.Compare) and not isinstance(
            test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE
        )
        if not is_swapped and "TYPE_CHECKING" not in ast.unparse(test):
            yield "negate the condition", "test", ast.UnaryOp(ast.Not(), test)


def mutations(tree: ast.AST) -> Iterator[Mutation]:
    if is_report(tree):
        return
    for what, field, new in own_mutations(tree):
        yield getattr(tree, "lineno", 0), what, functools.partial(setattr, tree, field, new)
    for field, value in ast.iter_fields(tree):
        children = value if isinstance(value, list) else [value]
        for at, child in enumerate(children if field not in UNTOUCHED else []):
            match child:
                case ast.Expr(value=ast.Await(value=call)) | ast.Expr(value=ast.Call() as call):
                    if not is_report(call):
                        delete = functools.partial(operator.setitem, children, at, ast.Pass())
                        yield child.lineno, "delete the statement", delete
            if isinstance(child, ast.AST):
                yield from mutations(child)


def all_mutants() -> list[Row]:
    """Each of the sources' mutants; `number` tells those apart that read alike."""
    rows: list[Row] = []
    for path in (ROOT / source for source in SOURCES):
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            name, lines = str(file.relative_to(ROOT)), file.read_text().splitlines()
            seen: dict[tuple[str, str], int] = defaultdict(int)
            found = mutations(ast.parse(file.read_text()))
            for index, (line, mutation, _) in enumerate(found if UNTESTED not in name else ()):
                text = lines[line - 1].strip()
                row = {"file": name, "line": line, "text": text, "mutation": mutation}
                rows.append({**row, "number": seen[text, mutation], "index": index})
                seen[text, mutation] += 1
    return rows


def key(row: Row) -> tuple[Any, ...]:
    return row["file"], row["text"], row["mutation"], row["number"]


class Recorder:
    """A plugin of pytest: the seconds and the executed lines of the sources, for each test."""

    def __init__(self) -> None:
        self.tests: list[Test] = []
        self._files = {str(ROOT / row["file"]): row["file"] for row in all_mutants()}
        self._lines: dict[str, set[int]] = defaultdict(set)

    def _trace(self, frame: types.FrameType, event: str, _: object) -> Any:
        file = self._files.get(frame.f_code.co_filename)
        if file is not None:
            self._lines[file].add(frame.f_lineno)
        return self._trace if file is not None else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._lines, start = defaultdict(set), time.monotonic()
        failed = item.session.testsfailed
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        result = yield
        sys.settrace(None)
        lines = {file: sorted(numbers) for file, numbers in self._lines.items()}
        if item.session.testsfailed == failed:
            self.tests.append((item.nodeid, time.monotonic() - start, lines))
        return result


class SameExamples:
    """A plugin: examples of Hypothesis are the same each time, and are not made smaller."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")


def run_tests(words: list[str], log: Path, *plugins: object) -> int:
    with tempfile.TemporaryDirectory() as folder, log.open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/tests"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--timeout", HANGS]
        options += ["-m", "not slow and not browser", *words]
        return int(pytest.main(options, plugins=[SameExamples(), *plugins]))


def fails(work: Callable[[], int], timeout: float = TIMEOUT) -> bool:
    """Whether `work`, in a process of its own, returns something else than 0 or takes longer."""

    def run() -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os._exit(OURS + work())

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(timeout)
    with suppress(ProcessLookupError):  # with what the tests have started
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return process.exitcode != OURS


def recorded(folder: Path) -> list[Test]:
    """The tests, from a former run if nothing has changed. Imports the libraries they import."""
    files = [path for each in SOURCES + TESTS for path in sorted((ROOT / each).rglob("*.py"))]
    state = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    path = folder / f"mutants-{state}.json"

    def record() -> int:
        recorder, others = Recorder(), [f"--ignore-glob=*/tests/{name}" for name in OTHER_TESTS]
        run_tests([*TESTS, *others, "-k", NO_SERVERS], folder / "mutants.log", recorder)
        places = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
        libraries = [name for name, file in places.items() if "/site-packages/" in (file or "")]
        path.write_text(json.dumps([libraries, recorder.tests]))
        return 0

    if not path.exists():
        print("recording which tests execute which lines …", flush=True)
        fails(record, 1800)
    libraries, tests = json.loads(path.read_text())
    for name in libraries:
        if not name.startswith(("pytest", "_pytest", "xdist", "hypothesis", "_hypothesis")):
            with suppress(Exception):
                importlib.import_module(name)
    return list(tests)


def batches(row: Row, tests: list[Test]) -> Iterator[list[str]]:
    """Tests that execute its line: of its own module or folder first, and the quickest. For a line
    that is executed when the module is imported, those that execute any of the module.
    """
    covering = [test for test in tests if row["line"] in test[2].get(row["file"], [])]
    covering = covering or [test for test in tests if test[2].get(row["file"])]
    module, folder = Path(row["file"]).stem, f"/{Path(row['file']).parent.name}/"
    covering.sort(key=lambda test: (module not in test[0], folder not in test[0], test[1]))
    for count, seconds in BATCHES:
        batch: list[str] = []
        while covering and len(batch) < count and seconds > 0:
            seconds -= covering[0][1]
            batch.append(covering.pop(0)[0])
        if batch:
            yield batch


def is_killed(row: Row, tests: list[Test], log: Path) -> bool:
    path, original = ROOT / row["file"], SourceFileLoader.get_code
    tree = ast.parse(path.read_text())
    list(mutations(tree))[row["index"]][2]()
    code = compile(ast.fix_missing_locations(tree), str(path), "exec")

    def get_code(loader: SourceFileLoader, name: str) -> Any:
        return code if loader.path == str(path) else original(loader, name)

    def run(names: list[str]) -> int:
        SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
        return run_tests(["-x", *names], log)

    return any(fails(functools.partial(run, names)) for names in batches(row, tests))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--out", type=Path, default=os.devnull, help="for results, as JSON lines")
    parser.add_argument("--again", type=Path, help="run the mutants of this file that still exist")
    parser.add_argument("--survivors", action="store_true", help="of --again, those that survived")
    parser.add_argument("--work", type=Path, default=ROOT / ".pytest_cache", help="for recordings")
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    tests, rows = recorded(options.work), all_mutants()
    chosen = random.Random(options.seed).sample(rows, min(options.count, len(rows)))
    if options.again:
        former = [json.loads(line) for line in options.again.read_text().splitlines()]
        former = [row for row in former if not (options.survivors and row["killed"])]
        present = {key(row): row for row in rows}
        chosen = [present[key(row)] for row in former if key(row) in present]
        print(f"{len(chosen)} of {len(former)} mutants still exist")
    killed, start = 0, time.monotonic()
    with options.out.open("w") as out:
        for count, row in enumerate(chosen, 1):
            row["killed"] = is_killed(row, tests, options.work / "mutants.log")
            killed += row["killed"]
            print(json.dumps(row), file=out, flush=True)
            if not row["killed"]:
                print(f"{row['file']}:{row['line']}: {row['mutation']}: {row['text']}", flush=True)
            if count % 50 == 0 or count == len(chosen):
                rate = (time.monotonic() - start) / count
                print(f"{killed} of {count} killed, {rate:.1f} s each", flush=True)


if __name__ == "__main__":
    main()
