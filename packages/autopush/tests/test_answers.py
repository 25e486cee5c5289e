"""The shapes of answers."""

import json

import pytest

from autopush import answers
from autopush.webpush.errors import Errno, PushError
from support.endpoint_harness import headers_of, refusal


def test_json_is_json() -> None:
    response = answers.json(201, {"a": ["é"]}, (("X", "y"),))
    assert response.status == 201
    assert json.loads(response.body) == {"a": ["é"]}
    assert headers_of(response) == {"x": "y", "content-type": "application/json"}


def test_words_are_utf_8() -> None:
    response = answers.text(404, "näher", (("X", "y"),))
    assert (response.status, response.body.decode()) == (404, "näher")
    assert headers_of(response) == {"x": "y", "content-type": "text/plain; charset=utf-8"}


@pytest.mark.parametrize("errno", list(Errno), ids=lambda errno: str(int(errno)))
def test_every_refusal_has_the_documented_shape(errno: Errno) -> None:
    response = answers.error(PushError(errno, "what is wrong"))
    assert refusal(response)[1] == errno
    assert json.loads(response.body)["message"] == "what is wrong"


def test_headers_of_the_caller_are_added_to_those_of_the_refusal() -> None:
    refused = PushError(Errno.INVALID_AUTHENTICATION, "no", headers=(("A", "1"),))
    headers = headers_of(answers.error(refused, (("B", "2"),)))
    assert headers.keys() == {"a", "b", "www-authenticate", "content-type"}


@pytest.mark.parametrize(("status", "errno"), [(404, 102), (413, 104), (500, 999), (503, 201)])
def test_what_the_http_shell_refuses_has_the_same_shape(status: int, errno: int) -> None:
    response = answers.protocol_error(status, "what is wrong")
    assert refusal(response) == (status, errno)
    assert json.loads(response.body)["message"] == "what is wrong"


@pytest.mark.parametrize("status", [400, 405, 408, 411, 414, 431, 501, 505])
def test_what_has_no_errno_says_so(status: int) -> None:
    response = answers.protocol_error(status, "what is wrong")
    document = json.loads(response.body)
    assert response.status == document["code"] == status
    assert document["errno"] is None
    assert document["message"] == "what is wrong"
    assert response.content_type == "application/json"


def test_not_found_is_the_same_for_every_path() -> None:
    response = answers.not_found()
    assert response.status == 404
    assert json.loads(response.body) == {"code": 404, "error": "Page not found"}


def test_an_answer_is_made_anew_each_time() -> None:
    assert answers.not_found() is not answers.not_found()
