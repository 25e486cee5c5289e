import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.telemetry import logs
from autopush.telemetry.log_format import REDACTED, SECRET_FIELDS, JsonFormatter, TextFormatter
from autopush.telemetry.log_handlers import DeliveryStream
from autopush.telemetry.logs import (
    LINES_PER_SECOND,
    MAX_KINDS,
    REPORT_INTERVAL,
    WARNINGS_PER_SECOND,
    LineHandler,
    RepeatLimiter,
)
from support.clocks import ManualClock


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "autopush.log"


def configure(path: Path, level: str = "debug", **more: Any) -> None:
    logs.configure(output=str(path), level=level, version="2.0", **more)


def records(path: Path) -> list[dict[str, Any]]:
    """What was logged since `configure`; ends the logs."""
    logs.shutdown()
    return [json.loads(line) for line in path.read_text().splitlines()]


def fields(path: Path) -> list[dict[str, Any]]:
    """Those of each record."""
    return [record["Fields"] for record in records(path)]


def messages(path: Path) -> list[str]:
    return [each["message"] for each in fields(path)]


def line_handler() -> LineHandler:
    """The one that `configure` has made."""
    (handler,) = (each for each in logging.getLogger().handlers if isinstance(each, LineHandler))
    return handler


def record_of(event: str, level: int = logging.INFO, **values: object) -> logging.LogRecord:
    values |= {"name": "autopush.web", "msg": event, "created": 1.5}
    values |= {"levelno": level, "levelname": logging.getLevelName(level)}
    return logging.makeLogRecord(values)


# The shape of a record


def test_a_record_has_the_shape_of_mozlog(log_file: Path) -> None:
    configure(log_file)
    before = time.time_ns()
    logs.get("connection").info("Session", uaid_hash="ab", channels=["c"], connection_time=3)
    (record,) = records(log_file)
    assert before - 1000 <= record.pop("Timestamp") <= time.time_ns()  # a float has 200 ns here
    assert [record] == [
        {
            "Type": "autopush:connection",
            "Severity": 5,
            "EnvVersion": "2.0",
            "Logger": "Autopush-2.0",
            "Hostname": os.uname().nodename,
            "Pid": os.getpid(),
            "Fields": {
                "message": "Session",
                "level": "info",
                "uaid_hash": "ab",
                "channels": ["c"],
                "connection_time": 3,
            },
        }
    ]


def test_errors_have_severity_3_and_all_else_5(log_file: Path) -> None:
    configure(log_file)
    log = logs.get("x")
    for write in (log.debug, log.info, log.warning, log.error, log.critical):
        write("m")
    assert [record["Severity"] for record in records(log_file)] == [5, 5, 5, 3, 3]


def test_client_info_and_timings_are_flattened(log_file: Path) -> None:
    configure(log_file)
    logs.get("x").info("m", client_info={"user_agent": "u"}, timings={"route_time": 1.5})
    assert fields(log_file)[0] == {
        "message": "m",
        "level": "info",
        "user_agent": "u",
        "route_time": 1.5,
    }


def test_an_exception_is_logged_with_its_traceback(log_file: Path) -> None:
    configure(log_file)
    log = logs.get("x")
    try:
        raise LookupError("lost")
    except LookupError:
        log.exception("while handled")
        log.warning("while handled", exc_info=True)
    log.exception("given", error=ValueError("bad"), uaid_hash="ab")
    log.error("given", exc_info=ValueError("bad"))
    found = [each["exception"] for each in fields(log_file)]
    for handled in found[:2]:
        assert handled.startswith("Traceback")
        assert handled.endswith("LookupError: lost")
    assert found[2:] == ["ValueError: bad", "ValueError: bad"]


def test_an_exception_that_is_not_there_is_no_field(log_file: Path) -> None:
    configure(log_file)
    logs.get("x").exception("none")
    assert fields(log_file)[0] == {"message": "none", "level": "error"}


# Secrets


@pytest.mark.parametrize("name", [*sorted(SECRET_FIELDS), "Authorization", "Crypto-Key"])
@pytest.mark.parametrize("human", [True, False])
def test_secrets_are_redacted_at_any_depth(log_file: Path, name: str, human: bool) -> None:
    configure(log_file, human=human)
    fields: dict[str, object] = {name: "geheim", "client_info": {name: "geheim"}}
    fields["nested"] = {"deep": {name: ["geheim"]}, "list": [{name: "geheim"}]}
    logs.get("x").info("m", **fields)
    logs.shutdown()
    text = log_file.read_text()
    assert "geheim" not in text
    assert REDACTED in text


def test_redaction_does_not_change_the_callers_dict(log_file: Path) -> None:
    configure(log_file)
    headers = {"authorization": "vapid"}
    logs.get("x").info("m", headers=headers)
    assert headers == {"authorization": "vapid"}


def test_debug_lines_of_the_aws_library_which_tell_of_credentials_are_never_written(
    log_file: Path,
) -> None:
    configure(log_file, level="debug")
    logging.getLogger("botocore.credentials").debug("Found credentials: geheim")
    logging.getLogger("elsewhere").debug("said")
    assert messages(log_file) == ["said"]


# Levels


def test_nothing_below_the_level_is_written_also_by_loggers_made_before(log_file: Path) -> None:
    configure(log_file, level="warning")
    log = logs.get("x")
    log.info("no")
    log.warning("yes")
    logs.shutdown()
    configure(log_file, level="debug")
    log.debug("now too")
    assert messages(log_file) == ["yes", "now too"]


def test_a_call_below_the_level_does_not_read_its_fields(log_file: Path) -> None:
    class Untouchable:
        def __repr__(self) -> str:
            raise AssertionError

    configure(log_file, level="info")
    logs.get("x").debug("m", value=Untouchable())
    assert records(log_file) == []


def test_before_configure_and_after_shutdown_logs_are_silent(
    log_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.shutdown()
    logs.get("x").critical("early")
    configure(log_file)
    logs.shutdown()
    logs.get("x").critical("late")
    assert log_file.read_text() == ""
    assert capfd.readouterr() == ("", "")


def test_shutdown_leaves_logging_as_it_was(log_file: Path) -> None:
    root, botocore = logging.getLogger(), logging.getLogger("botocore")

    def state() -> tuple[object, ...]:
        return root.level, list(root.handlers), botocore.level

    level_before = botocore.level
    botocore.setLevel(logging.ERROR)
    before = state()
    for output in (str(log_file), "none"):
        logs.configure(output=output, level="debug")
        configure(log_file, level="error")
        assert state() != before
        logs.shutdown()
        assert state() == before
    logs.shutdown()
    assert state() == before
    botocore.setLevel(level_before)


def test_a_file_is_appended_to(log_file: Path) -> None:
    for _ in range(2):
        configure(log_file)
        logs.get("x").info("m")
    logs.shutdown()
    assert len(records(log_file)) == 2


def test_a_file_that_cannot_be_opened_keeps_the_old_output(log_file: Path) -> None:
    configure(log_file)
    with pytest.raises(OSError, match="Not a directory"):
        configure(log_file / "below")
    logs.get("x").info("m")
    assert len(records(log_file)) == 1


def test_a_renamed_file_is_left_for_a_new_one_of_its_name(log_file: Path) -> None:
    configure(log_file)
    log = logs.get("x")
    log.info("before")
    old = log_file.rename(log_file.with_suffix(".1"))
    log.info("renamed")
    assert line_handler().wait_until_written(30)
    logs.reopen()
    log.info("after")
    assert messages(log_file) == ["after"]
    assert old.read_text().count("\n") == 2


def test_no_line_is_lost_while_files_are_renamed(log_file: Path) -> None:
    configure(log_file)
    log = logs.get("x")
    for number in range(200):
        log.debug("m", number=number)
        if number % 10 == 9:
            log_file.rename(log_file.with_suffix(f".{number}"))
            logs.reopen()
    logs.shutdown()
    lines = [line for file in log_file.parent.iterdir() for line in file.read_text().splitlines()]
    numbers = sorted(json.loads(line)["Fields"]["number"] for line in lines)
    assert numbers == list(range(200))


def test_a_file_that_cannot_be_opened_again_stays_in_use(log_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    configure(folder / "log")
    renamed = folder.rename(tmp_path / "renamed")
    logs.reopen()
    logs.get("x").info("after")
    assert messages(renamed / "log") == [
        "The log file cannot be opened again; the old one is kept",
        "after",
    ]


def test_what_keeps_failing_is_logged_once_and_again_after_it_worked(log_file: Path) -> None:
    configure(log_file)
    failures = logs.FailureLog(logs.get("x"), "It fails", "It works again")
    failures.succeeded()
    for reason in ("first", "second"):
        failures.failed(reason=reason)
    for _ in range(2):
        failures.succeeded()
    failures.failed(reason="third")
    assert [(each["message"], each.get("reason")) for each in fields(log_file)] == [
        ("It fails", "first"),
        ("It works again", None),
        ("It fails", "third"),
    ]


@pytest.mark.parametrize("output", ["stdout", "stderr", "none"])
def test_other_outputs_stay_as_they_are(output: str, capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(output=output, human=True)
    logs.get("x").info("before")
    logs.reopen()
    logs.get("x").info("after")
    logs.shutdown()
    out, err = capfd.readouterr()
    assert (out + err).count("\n") == (0 if output == "none" else 2)


def test_records_name_the_program_and_the_host_that_are_given(log_file: Path) -> None:
    configure(log_file, program="Autoendpoint", hostname="push-1.example")
    logs.get("x").info("m")
    (record,) = records(log_file)
    assert (record["Logger"], record["Hostname"]) == ("Autoendpoint-2.0", "push-1.example")


# Everything ends up here


def test_the_standard_library_logs_here_too(log_file: Path) -> None:
    configure(log_file, level="info")
    logging.getLogger("some.library").warning("%d of %s", 3, "x")
    logging.getLogger("some.library").debug("no")
    (first,) = records(log_file)
    assert (first["Type"], first["Fields"]["message"]) == ("python:some.library", "3 of x")
    assert first["Fields"]["level"] == "warning"


def test_modules_log_under_their_names(log_file: Path) -> None:
    configure(log_file)
    logs.get("autopush.service.worker").info("m")
    logs.get("worker").info("m")
    types = [record["Type"] for record in records(log_file)]
    assert types == ["autopush:service.worker", "autopush:worker"]


def test_a_record_whose_arguments_do_not_fit_is_logged_without_them(
    log_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(log_file)
    line_handler().handle(
        logging.LogRecord("library", logging.ERROR, "f", 1, "%d", ("secret",), None)
    )
    (record,) = records(log_file)
    assert record["Type"] == "python:library"
    assert record["Fields"] == {"message": "%d", "level": "error", "log_error": "TypeError"}
    assert capfd.readouterr() == ("", "")


def test_a_field_that_cannot_be_rendered_loses_the_fields_and_raises_nothing(
    log_file: Path,
) -> None:
    class Unshowable:
        def __repr__(self) -> str:
            raise LookupError

    configure(log_file)
    logs.get("x").warning("m", value=Unshowable(), other=1)
    (found,) = fields(log_file)
    assert (found["message"], found["level"], "other" in found) == ("m", "warning", False)


async def test_the_error_of_a_task_that_is_not_awaited_is_reported(log_file: Path) -> None:
    configure(log_file)

    async def fail() -> None:
        raise LookupError("lost")

    task = asyncio.ensure_future(fail())
    await asyncio.wait([task])
    del task
    fields = [record["Fields"] for record in records(log_file) if record["Severity"] == 3]
    assert fields[0]["message"].startswith("Task exception was never retrieved")
    assert fields[0]["exception"].endswith("LookupError: lost")


# A line always comes out

Anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.just("\ud800")
    | st.builds(object)
    | st.frozensets(st.text()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
Names = st.text() | st.just("event") | st.just("self")


@given(st.text(), st.dictionaries(Names, Anything, max_size=3))
def test_whatever_is_logged_one_line_of_each_form_comes_out(
    message: str, fields: dict[str, Any]
) -> None:
    for formatter in (JsonFormatter("Autopush"), TextFormatter()):
        line = formatter.format(record_of(message, fields=fields))
        if isinstance(formatter, JsonFormatter) or "exception" not in fields:
            assert "\n" not in line
            assert "\r" not in line


def test_field_names_that_collide_do_not_fail_the_caller(log_file: Path) -> None:
    configure(log_file)
    logs.get("x").info("m", self=1)
    logs.get("x").info("n", event=1, level=2)
    assert messages(log_file) == ["m", "n"]


def test_text_for_people_is_one_line_and_a_traceback_below() -> None:
    odd = record_of("odd\nmessage", fields={"a": "b c", "n": 2, "evil": "\x1b[31m"})
    assert TextFormatter().format(odd) == (
        "1970-01-01T00:00:01.500Z INFO web: odd\\nmessage a='b c' n=2 evil='\\x1b[31m'"
    )
    error = ValueError("first\nsecond")
    failed = record_of("failed", logging.ERROR, exc_info=(ValueError, error, None))
    assert TextFormatter().format(failed) == (
        "1970-01-01T00:00:01.500Z ERROR web: failed\n    ValueError: first\n    second"
    )


# Writing


class Pipe:
    """A pipe that is not read until `read_lines`."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def read_until(self, ending: bytes) -> bytes:
        data = b""
        while not data.endswith(ending):
            data += os.read(self.reader, 65_536)
        return data

    def fill(self) -> int:
        os.set_blocking(self.writer, False)
        size = 0
        try:
            while True:
                size += os.write(self.writer, b"." * 4096)
        except BlockingIOError:
            os.set_blocking(self.writer, True)
        return size


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)


class LineFormatter(logging.Formatter):
    """The message, and the number of lost lines."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        return f"lost {fields['lost']}" if "lost" in fields else record.getMessage()


@pytest.fixture
def handler_for() -> Iterator[Callable[..., LineHandler]]:
    """Handlers that are closed at the end, with their descriptors."""
    made: list[LineHandler] = []

    def make(descriptor: int, **options: Any) -> LineHandler:
        made.append(LineHandler(descriptor, LineFormatter(), close_descriptor=True, **options))
        return made[-1]

    yield make
    for handler in made:
        handler.close()


def test_a_blocked_pipe_loses_lines_and_delays_nothing(
    pipe: Pipe, handler_for: Callable[..., LineHandler]
) -> None:
    handler = handler_for(pipe.writer, capacity=100, monotonic=lambda: 100.0)
    size = pipe.fill()
    handler.start()
    for number in range(1000):
        handler.handle(record_of(f"line {number}"))
    assert 899 <= handler.lost <= 900
    assert not handler.wait_until_written(0.01)
    data = b""
    while len(data) < size:
        data += os.read(pipe.reader, size - len(data))
    assert handler.wait_until_written(30)
    handler.handle(record_of("end"))
    assert handler.wait_until_written(30)
    lines = pipe.read_until(b"end\n").splitlines()
    reports = [line for line in lines if line.startswith(b"lost")]
    assert reports == [b"lost %d" % handler.lost]
    assert len(lines) - 2 + handler.lost == 1000


def test_reports_of_lost_lines_are_rare(
    pipe: Pipe, handler_for: Callable[..., LineHandler]
) -> None:
    now = [0.0]
    size = pipe.fill()
    handler = handler_for(pipe.writer, monotonic=lambda: now[0])

    def lose(events: str) -> None:
        for event in events:
            handler.handle(record_of(event))
        assert len(os.read(pipe.reader, size)) == size

    lose("ab")
    handler.handle(record_of("c"))
    assert pipe.read_until(b"2\n") == b"c\nlost 2\n"
    pipe.fill()
    lose("d")
    now[0] += REPORT_INTERVAL - 1
    handler.handle(record_of("e"))
    now[0] += 1
    handler.handle(record_of("f"))
    assert pipe.read_until(b"1\n") == b"e\nf\nlost 1\n"


def test_what_was_lost_is_reported_at_the_end_at_the_latest(
    pipe: Pipe, handler_for: Callable[..., LineHandler]
) -> None:
    size = pipe.fill()
    handler = handler_for(pipe.writer)
    handler.handle(record_of("a"))
    assert handler.lost == 1
    assert len(os.read(pipe.reader, size)) == size
    handler.close()
    assert pipe.read_until(b"\n") == b"lost 1\n"


def test_a_descriptor_that_was_made_non_blocking_loses_nothing(
    pipe: Pipe, handler_for: Callable[..., LineHandler]
) -> None:
    size = pipe.fill()
    os.set_blocking(pipe.writer, False)
    handler = handler_for(pipe.writer)
    handler.start()
    handler.handle(record_of("a"))
    assert not handler.wait_until_written(0.01)
    assert len(os.read(pipe.reader, size)) == size
    assert pipe.read_until(b"\n") == b"a\n"
    assert handler.lost == 0


def test_a_closed_pipe_loses_lines_and_nothing_else(
    handler_for: Callable[..., LineHandler],
) -> None:
    reader, descriptor = os.pipe()
    os.close(reader)
    handler = handler_for(descriptor)
    handler.start()
    handler.handle(record_of("a"))
    assert handler.wait_until_written(30)
    assert handler.lost == 1


def test_lines_of_several_processes_do_not_mix_in_a_pipe(
    pipe: Pipe, handler_for: Callable[..., LineHandler], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each line is one write of at most PIPE_BUF bytes, which POSIX makes atomic.
    written: list[bytes] = []
    write: Callable[[int, memoryview], int] = os.write

    def spy(descriptor: int, data: memoryview) -> int:
        written.append(bytes(data))
        return write(descriptor, data)

    handler = handler_for(pipe.writer)
    monkeypatch.setattr(os, "write", spy)
    handler.start()
    for number in range(400):
        handler.handle(record_of(f"{number:099}"))
    assert handler.wait_until_written(30)
    assert written == [b"%099d\n" % number for number in range(400)]


# systemd's journal

TO_JOURNAL = """
import os, sys
found = os.fstat(1)
os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
from autopush.telemetry import logs
logs.configure(output="stdout", human=sys.argv[1] == "text", level="debug")
log = logs.get("x")
for write in (log.critical, log.error, log.warning, log.info, log.debug):
    write("m")
log.exception("failed", error=ValueError("first\\nsecond"))
os.dup2(1, 2)
logs.shutdown()
logs.print_error("it does not start")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_in_the_journal_each_line_has_the_priority_of_its_record(form: str) -> None:
    program = [sys.executable, "-c", TO_JOURNAL, form]
    lines = subprocess.run(program, capture_output=True, check=True, text=True).stdout.splitlines()
    assert [line[:3] for line in lines[:5]] == ["<2>", "<3>", "<4>", "<6>", "<7>"]
    *failed, reason = lines[5:]
    assert len(failed) == (3 if form == "text" else 1)  # the traceback has lines of its own
    assert {line[:3] for line in failed} == {"<3>"}
    assert reason == "<3>autopush: it does not start"


def test_a_variable_of_the_journal_for_another_output_changes_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    logs.configure(output="stdout", human=True)
    logs.get("x").error("m")
    logs.shutdown()
    logs.print_error("reason")
    out, err = capfd.readouterr()
    assert out.startswith("20")
    assert err == "autopush: reason\n"


def test_only_the_output_has_priorities_and_not_a_delivery_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeliveryStream("s", lambda: pytest.fail("not yet"), capacity=10, flush_interval=60)
    lines: list[bytes] = []
    monkeypatch.setattr(stream, "put", lines.append)
    monkeypatch.setattr("autopush.telemetry.logs.is_journal", lambda _: True)
    logs.configure(output="stdout", human=False, handlers=[stream])
    logs.get("x").error("m")
    logs.shutdown()
    assert [line[:1] for line in lines] == [b"{"]


PROGRAM = """
from autopush.telemetry import logs
logs.configure(output="stdout", level="debug", human=False)
log = logs.get("x")
for number in range(500):
    log.debug("m", number=number)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "import sys; sys.exit()"])
def test_what_was_logged_is_written_before_the_process_ends(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ending=ending)], capture_output=True, check=True
    )
    assert done.stderr == b""
    numbers = [json.loads(line)["Fields"]["number"] for line in done.stdout.splitlines()]
    assert numbers == list(range(500))


def test_a_reader_that_stopped_reading_does_not_keep_the_process_from_ending() -> None:
    program = PROGRAM.format(ending="").replace("range(500)", "range(5000)")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.wait(timeout=60) == 0


# Repeated lines


def test_of_each_kind_so_many_are_admitted_in_an_interval_and_the_others_counted() -> None:
    clock = ManualClock()
    limiter = RepeatLimiter(2, 10.0, monotonic=clock)
    assert [limiter.admit("a") for _ in range(4)] == [{}, {}, None, None]
    assert limiter.admit("b") == {}
    clock.advance(9.9)
    assert limiter.admit("a") is None
    clock.advance(0.11)
    assert [limiter.admit("a") for _ in range(3)] == [{"suppressed": 3}, {}, None]
    assert limiter.admit(7) == {}


def test_the_number_of_kinds_is_bounded() -> None:
    limiter = RepeatLimiter(1, 10.0, monotonic=ManualClock())
    for kind in range(MAX_KINDS):
        assert limiter.admit(kind) == {}
    assert limiter.admit(0) is None
    assert limiter.admit("one more") == {}
    assert limiter.admit(0) == {}  # forgotten


FLOOD = 2000
"""Lines a second: 156 million a day were written in the incident that this prevents."""


def test_in_a_flood_every_repeated_line_is_limited_and_what_is_missing_counted(
    log_file: Path,
) -> None:
    clock = ManualClock()
    configure(log_file, level="info", monotonic=clock)
    ours, library = logs.get("x"), logging.getLogger("library")
    for _ in range(3):
        for number in range(FLOOD):
            ours.info("information", number=number)
            ours.warning("warning", number=number)
            ours.error("error", exc_info=OSError())
            ours.error("error", exc_info=ValueError())
            library.error("of a library: %s", number)
        clock.advance(1)
    ours.info("information")
    written = fields(log_file)
    assert len(written) == 3 * (LINES_PER_SECOND + 4 * WARNINGS_PER_SECOND) + 1
    assert written[-1]["suppressed"] == FLOOD - LINES_PER_SECOND
    counted = sum(each.get("suppressed", 0) for each in written)
    assert counted == 3 * (FLOOD - LINES_PER_SECOND) + 2 * 4 * (FLOOD - WARNINGS_PER_SECOND)


def test_a_line_is_counted_once_for_all_handlers(tmp_path: Path, log_file: Path) -> None:
    second = LineHandler(
        os.open(tmp_path / "second", os.O_WRONLY | os.O_CREAT),
        JsonFormatter("x"),
        close_descriptor=True,
    )
    configure(log_file, monotonic=ManualClock(), handlers=[second])
    for number in range(FLOOD):
        logs.get("x").error("often", number=number)
    assert [each["number"] for each in fields(log_file)] == list(range(WARNINGS_PER_SECOND))
    assert len((tmp_path / "second").read_text().splitlines()) == WARNINGS_PER_SECOND


def test_what_a_caller_left_out_itself_is_counted_too(log_file: Path) -> None:
    clock = ManualClock()
    configure(log_file, monotonic=clock)
    for _ in range(WARNINGS_PER_SECOND + 3):
        logs.get("x").warning("m", suppressed=2)
    clock.advance(1)
    logs.get("x").warning("m", suppressed=2)
    assert fields(log_file)[-1]["suppressed"] == 5


def test_the_fields_of_a_line_that_is_not_written_are_not_collected(log_file: Path) -> None:
    configure(log_file, level="info", monotonic=ManualClock())
    collected: list[None] = []

    def collect() -> dict[str, object]:
        collected.append(None)
        return {"number": len(collected)}

    for _ in range(FLOOD):
        logs.get("x").info_with("often", collect)
    assert [each["number"] for each in fields(log_file)] == list(range(1, LINES_PER_SECOND + 1))
    assert len(collected) == LINES_PER_SECOND
    configure(log_file, level="warning")
    logs.get("x").info_with("another", collect)
    assert len(collected) == LINES_PER_SECOND


def test_at_level_debug_every_line_is_written(log_file: Path) -> None:
    configure(log_file, monotonic=ManualClock())
    for _ in range(FLOOD):
        logs.get("x").debug("m")
    assert len(records(log_file)) == FLOOD


def test_so_many_lines_may_wait_as_is_given(log_file: Path) -> None:
    configure(log_file, capacity=3)
    assert line_handler()._capacity == 3


def test_a_flood_of_one_kind_hides_no_line_of_another(log_file: Path) -> None:
    configure(log_file, monotonic=ManualClock())
    for _ in range(FLOOD):
        logs.get("x").error("often")
    logs.get("x").error("once")
    logs.get("y").error("often")
    logs.get("x").warning("often")
    assert messages(log_file)[-3:] == ["once", "often", "often"]
