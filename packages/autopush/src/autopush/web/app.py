"""The endpoint's routes.

Rule: every refusal leaves as the documented JSON document, and every answer carries the headers of
its route.
"""

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

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        self._in_progress += 1
        try:
            response = await self._answer(request)
        except PushError as refusal:
            response = answers.error(refusal)
        finally:
            self._in_progress -= 1
        if not response.block:
            response.block = self._headers.of(request.path)
        return response

    async def _answer(self, request: Request) -> Response:
        path = request.path if "%" not in request.path else unquote(request.path)
        if self._in_progress > self._max_requests:
            raise PushError(Errno.BACK_OFF, "Too many requests in progress")
        match request.method, *path.split("/")[1:]:
            case "POST", "wpush", version, token if token:
                return await self._push(request, version, token)
            case "POST", "wpush", token if token:
                return await self._push(request, None, token)
            case "DELETE", "m", message_id if message_id:
                return await self._message(message_id)
            case "OPTIONS", *_:
                return Response(200)
            case "HEAD", *_:  # of the status pages the status counts, of all others nothing
                return await self._dockerflow.answer(request) or Response(200)
            case "GET", "v1", "err":
                return log_check("")
            case "GET", "v1", "err", kind:
                return log_check(kind)
            case "GET", "__error__":
                return log_check("error")
            case (_, "wpush", _, token) | (_, "wpush", token) if token:
                return answers.method_not_allowed("POST")
            case _, "m", message_id if message_id:
                return answers.method_not_allowed("DELETE")
        page = await self._dockerflow.answer(request) or self._start_page.answer(request)
        return page or answers.not_found()
