"""The shapes of responses."""

import json

import pytest

from autopush.api import responses
from autopush.api.responses import ErrorResponses
from autopush.webpush.errors import Errno, PushError
from keytables import Unconfirmed
from support.cases import cases
from support.connection_harness import ERRORS
from support.endpoint_harness import headers_of, refusal

ERROR_RESPONSES = ErrorResponses(ERRORS)


def test_json_is_json() -> None:
    response = responses.json(201, {"a": ["é"]}, (("X", "y"),))
    assert response.status == 201
    assert json.loads(response.body) == {"a": ["é"]}
    assert headers_of(response) == {"x": "y", "content-type": "application/json"}


def test_text_is_utf_8() -> None:
    response = responses.text(404, "näher", (("X", "y"),))
    assert (response.status, response.body.decode()) == (404, "näher")
    assert headers_of(response) == {"x": "y", "content-type": "text/plain; charset=utf-8"}


@cases("errno", list(Errno))
def test_every_refusal_has_the_documented_shape(errno: Errno) -> None:
    response = ERROR_RESPONSES.of(PushError(errno, "what is wrong"))
    assert refusal(response)[1] == errno
    assert json.loads(response.body)["message"] == "what is wrong"


def test_what_may_be_stored_is_not_to_be_sent_again_at_once() -> None:
    refused = responses.storage_refusal(Unconfirmed("no answer"))
    assert "may arrive" in refused.message
    assert headers_of(ERROR_RESPONSES.of(refused))["retry-after"] == "120"


def test_headers_of_a_refusal_are_added_to_those_of_its_status() -> None:
    refused = PushError(Errno.INVALID_AUTHENTICATION, "no", headers=(("A", "1"),))
    headers = headers_of(ERROR_RESPONSES.of(refused))
    assert headers.keys() == {"a", "www-authenticate", "content-type"}


@pytest.mark.parametrize(("status", "errno"), [(404, 102), (413, 104), (500, 999), (503, 201)])
def test_an_error_of_the_http_server_has_the_same_shape(status: int, errno: int) -> None:
    response = ERROR_RESPONSES.of_protocol(status, "what is wrong")
    assert refusal(response) == (status, errno)
    assert json.loads(response.body)["message"] == "what is wrong"


@cases("status", [400, 405, 408, 411, 414, 431, 501, 505])
def test_an_http_error_without_errno_has_null(status: int) -> None:
    response = ERROR_RESPONSES.of_protocol(status, "what is wrong")
    document = json.loads(response.body)
    assert response.status == document["code"] == status
    assert document["errno"] is None
    assert document["more_info"] == f"{ERRORS}#errors-http"
    assert document["message"] == "what is wrong"
    assert response.content_type == "application/json"


def test_an_unknown_path_has_the_documented_shape_and_the_text_of_the_original() -> None:
    response = ERROR_RESPONSES.of(responses.not_found())
    assert refusal(response) == (404, 102)
    assert json.loads(response.body)["error"] == "Page not found"


def test_a_wrong_method_has_the_documented_shape_and_names_the_right_ones() -> None:
    response = ERROR_RESPONSES.of(responses.method_not_allowed("DELETE"))
    assert refusal(response) == (405, 102)
    assert headers_of(response)["allow"] == "DELETE, OPTIONS, HEAD"


def test_each_response_is_an_object_of_its_own() -> None:
    refusal = responses.not_found()
    assert ERROR_RESPONSES.of(refusal) is not ERROR_RESPONSES.of(refusal)
