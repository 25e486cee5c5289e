"""The log check: each call leaves exactly the lines it says, and the response names them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import LogCheck
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.http_messages import Request, Response
from autopush.settings.value_types import Rate
from autopush.telemetry import logs
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.webpush.tokens import EndpointTokens
from support.connection_harness import ENDPOINT, ERRORS, Harness
from support.log_lines import LogFile
from support.recorded import recorded


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[LogFile]:
    yield LogFile(tmp_path, level="debug")
    logs.shutdown()


@pytest.fixture
def check(harness: Harness) -> LogCheck:
    errors = ErrorResponses(ERRORS)
    tokens = EndpointTokens(harness.ring, ENDPOINT)
    requests = RequestLog(tokens, errors, harness.store.uaid_hash, harness.metrics)
    return LogCheck(errors, requests, TokenBuckets(None), LimitRefusals(harness.metrics))


def get(check: LogCheck, path: str) -> Response | None:
    return check.respond(Request("GET", path, "", {"user-agent": "curl"}, "192.0.2.7"))


def errors_in(lines: LogFile) -> list[dict[str, Any]]:
    return [fields for fields in lines.all_fields if "limit" not in fields]


def document(response: Response | None) -> dict[str, Any]:
    assert response is not None
    assert response.status == 418
    assert response.content_type == "application/json"
    answered: dict[str, Any] = json.loads(response.body)
    assert (answered["code"], answered["errno"]) == (418, 999)
    assert answered["more_info"].startswith(ERRORS)
    return answered


@pytest.mark.parametrize(
    "path",
    ["/v1/err", *(f"/v1/err/{kind}" for kind in ("error", "Error", "some-errors", "errorcrit"))],
)
def test_an_error_is_logged_once_and_the_response_is_418(
    lines: LogFile, check: LogCheck, path: str
) -> None:
    answered = document(get(check, path))
    assert (answered["error"], answered["message"]) == ("Test Error", "ERROR:Success")
    (fields,) = lines.all_fields
    assert (fields["level"], fields["message"]) == ("error", "Test Error Message")
    assert fields["status_code"] == 418
    assert "exception" not in fields


@pytest.mark.parametrize("kind", ["crit", "CRIT", "critical"])
def test_an_exception_is_logged_once_with_its_traceback(
    lines: LogFile, check: LogCheck, kind: str
) -> None:
    answered = document(get(check, f"/v1/err/{kind}"))
    assert (answered["error"], answered["message"]) == ("Test Failure", "FAILURE:Success")
    (fields,) = lines.all_fields
    assert fields["message"] == "Test Critical Message"
    assert fields["exception"].startswith("Traceback")
    assert fields["exception"].endswith("LogCheckError: LogCheck")


def test_the_page_of_dockerflow_logs_two_errors_with_exceptions(
    lines: LogFile, check: LogCheck
) -> None:
    answered = document(get(check, "/__error__"))
    assert answered["message"] == "ERROR:Success"
    assert [fields["exception"].rpartition("Error: ")[2] for fields in lines.all_fields] == [
        "LogCheck",
        "ERROR:Success",
    ]


@pytest.mark.parametrize("kind", ["other", "e", "%"])
def test_an_unknown_kind_is_404_with_errno_0_and_logs_nothing(
    lines: LogFile, check: LogCheck, kind: str
) -> None:
    response = get(check, f"/v1/err/{kind}")
    assert response is not None
    assert (response.status, json.loads(response.body)["errno"]) == (404, 0)
    assert lines.records == []


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/err/", "/v1/err/crit/x", "/v1/error", ""])
def test_other_paths_have_no_page_and_log_nothing(
    lines: LogFile, check: LogCheck, path: str
) -> None:
    assert get(check, path) is None
    assert lines.records == []


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS", "DELETE"])
def test_other_methods_log_nothing(lines: LogFile, check: LogCheck, method: str) -> None:
    assert check.respond(Request(method, "/v1/err/crit", "", {}, "::1")) is None
    assert lines.records == []


def test_a_page_asked_for_too_often_is_refused_and_does_not_log_its_errors(
    lines: LogFile, harness: Harness
) -> None:
    errors = ErrorResponses(ERRORS)
    requests = RequestLog(
        EndpointTokens(harness.ring, ENDPOINT), errors, harness.store.uaid_hash, harness.metrics
    )
    now = 1000.0
    check = LogCheck(
        errors,
        requests,
        TokenBuckets(Rate(2, "min"), monotonic=lambda: now),
        LimitRefusals(harness.metrics),
    )
    pages = (("/v1/err", 1), ("/v1/err/crit", 1), ("/__error__", 2))
    for number, (path, logged) in enumerate(pages, 1):
        already = len(errors_in(lines))
        responses = [get(check, path) for _ in range(5)]
        assert [response and response.status for response in responses] == [418] * 2 + [429] * 3
        assert len(errors_in(lines)) == already + 2 * logged
        assert recorded(harness.metrics, LIMIT_REFUSED, limit="log_check_rate") == 3 * number
        assert responses[-1] is not None
        assert json.loads(responses[-1].body)["errno"] == 203
        assert ("Retry-After", "30") in responses[-1].headers
    now += 30
    document(get(check, "/v1/err"))
