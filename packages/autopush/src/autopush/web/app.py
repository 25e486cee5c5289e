"""The endpoint's routes.

Rule: every refusal leaves as the documented JSON document, and every answer carries the headers of
its route.
"""

from collections.abc import Coroutine
from typing import Any
from urllib.parse import unquote

from autopush import answers
from autopush.dockerflow import Dockerflow
from autopush.net.http_messages import Request, Response
from autopush.web.cors import CommonHeaders
from autopush.web.log_check import log_check
from autopush.web.message import MessageHandler
from autopush.web.push import PushHandler
from autopush.web.start_page import StartPage
from autopush.webpush.errors import Errno, PushError


class EndpointApp:
    """Handler of the endpoint port. `max_requests`: how many may be in progress at once."""

    def __init__(
        self,
        *,
        push: PushHandler,
        message: MessageHandler,
        dockerflow: Dockerflow,
        start_page: StartPage,
        headers: CommonHeaders,
        max_requests: int,
    ) -> None:
        self._push = push
        self._message = message
        self._dockerflow = dockerflow
        self._start_page = start_page
        self._headers = headers
        self._max_requests = max_requests
        self._in_progress = 0

    def __call__(self, request: Request) -> Response | Coroutine[Any, Any, Response]:
        """Answer one request, at once where nothing has to be waited for."""
        try:
            answer = self._answer(request)
        except PushError as refusal:
            answer = answers.error(refusal)
        if isinstance(answer, Response):
            return self._finish(request, answer)
        self._in_progress += 1
        return self._wait(request, answer)

    async def _wait(self, request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
        try:
            response = await answer
        except PushError as refusal:
            response = answers.error(refusal)
        finally:
            self._in_progress -= 1
        return self._finish(request, response)

    def _finish(self, request: Request, response: Response) -> Response:
        if not response.block:
            response.block = self._headers.of(request.path)
        return response

    def _answer(self, request: Request) -> Response | Coroutine[Any, Any, Response]:
        path = request.path if "%" not in request.path else unquote(request.path)
        if self._in_progress >= self._max_requests:
            raise PushError(Errno.BACK_OFF, "Too many requests in progress")
        match request.method, *path.split("/")[1:]:
            case "POST", "wpush", version, token if token:
                return self._push(request, version, token)
            case "POST", "wpush", token if token:
                return self._push(request, None, token)
            case "DELETE", "m", message_id if message_id:
                return self._message(message_id)
            case (("OPTIONS" | "HEAD"), *_):
                return Response(200)
            case "GET", "v1", "err":
                return log_check("")
            case "GET", "v1", "err", kind:
                return log_check(kind)
            case "GET", "__error__":
                return log_check("error")
            case (_, "wpush", _, token) | (_, "wpush", token) if token:
                return _wrong_method("POST")
            case _, "m", message_id if message_id:
                return _wrong_method("DELETE")
        return self._page(request)

    async def _page(self, request: Request) -> Response:
        page = await self._dockerflow.answer(request) or self._start_page.answer(request)
        return page or answers.not_found()


def _wrong_method(allowed: str) -> Response:
    document = {"code": 405, "error": "Method Not Allowed", "message": f"Use {allowed}."}
    return answers.json(405, document, (("Allow", f"{allowed}, OPTIONS, HEAD"),))
