"""What the Web API refuses, as one tree.

Rule: an error names the method, Slack's code and what to do; never a token, never a message.

    SlackError
    ├── TokenRefused     nothing can be asked with this token any more
    ├── MissingScope     the token may not call this method; says which scope is missing
    ├── ChannelRefused   this channel cannot be read, or not be written to
    ├── ThreadNotFound   there is no such thread
    ├── InvalidCursor    a listing has to begin from its start
    ├── NoAnswer         no answer of use, in spite of repetition
    └── CallRefused      any other code
"""

import re
from collections.abc import Mapping
from typing import Final


class SlackError(Exception):
    """A call that failed. ``method`` is the Web API's; ``code`` is Slack's, where it gives one."""

    def __init__(self, method: str, reason: str, code: str = "") -> None:
        super().__init__(f"{method}: {reason}")
        self.method, self.reason, self.code = method, reason, code


class TokenRefused(SlackError): ...  # noqa: N818


class MissingScope(SlackError):  # noqa: N818
    """``needed`` are the scopes, as Slack lists them."""

    needed = ""


class ChannelRefused(SlackError): ...  # noqa: N818


class ThreadNotFound(SlackError): ...  # noqa: N818


class InvalidCursor(SlackError): ...  # noqa: N818


class NoAnswer(SlackError): ...  # noqa: N818


class CallRefused(SlackError): ...  # noqa: N818


NOT_A_MEMBER: Final = "not_in_channel"
RATE_LIMITED: Final = frozenset({"ratelimited", "rate_limited"})
PASSING: Final = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"}
)
"""Codes of troubles on Slack's side that pass."""

_MEANINGS: Final[dict[type[SlackError], Mapping[str, str]]] = {
    TokenRefused: {
        "account_inactive": "the user or the workspace of the token is deactivated",
        "invalid_auth": "Slack does not know this token",
        "not_authed": "no token was sent",
        "token_expired": "the token has expired",
        "token_revoked": "the token was revoked",
        "team_access_not_granted": "the token was not granted this workspace",
        "access_denied": "the token may not do anything here",
        "not_allowed_token_type": "this kind of token may not call the method",
    },
    ChannelRefused: {
        NOT_A_MEMBER: "the bot of the token is not in it; invite it, or join it with --join",
        "channel_not_found": "there is no such channel, or the token may not see it",
        "is_archived": "the channel is archived",
        "no_permission": "the token may not read the channel",
        "method_not_supported_for_channel_type": "not for this kind of channel",
        "team_not_found": "the channel is of another workspace",
        "restricted_action": "the workspace does not let the token write there",
        "restricted_action_read_only_channel": "the channel is read-only for the token",
        "restricted_action_thread_only_channel": "the channel takes answers in threads alone",
    },
    ThreadNotFound: {"thread_not_found": ""},
    InvalidCursor: {"invalid_cursor": ""},
    CallRefused: {
        "cannot_dm_bot": "a bot gets no direct messages",
        "invalid_blocks": "Slack does not take these blocks",
        "messages_tab_disabled": "the app takes no direct messages: turn on its messages tab",
        "user_disabled": "the user is deactivated",
        "user_not_found": "there is no such user",
    },
}
_NOT_A_MEMBER_TO_POST: Final = (
    "the app is not in it; invite it, or give it the scope chat:write.public"
)


def code_of(body: Mapping[str, object]) -> str:
    """Slack's code of an error; "unknown" where it is not one."""
    code = body.get("error")
    return (
        code if isinstance(code, str) and re.fullmatch("[a-z][a-z0-9_]{0,79}", code) else "unknown"
    )


def error_of(method: str, body: Mapping[str, object]) -> SlackError:
    """The error that an answer with `ok: false` means."""
    code = code_of(body)
    if code == "missing_scope":
        needed, provided = _scopes(body.get("needed")), _scopes(body.get("provided"))
        has = f"; it has {provided}" if provided else ""
        lacks = f"the token lacks the scope {needed or '(not said which)'}{has}"
        error = MissingScope(method, lacks, code)
        error.needed = needed
        return error
    kind = next((kind for kind, codes in _MEANINGS.items() if code in codes), CallRefused)
    meaning = _MEANINGS[kind].get(code)
    if (method, code) == ("chat.postMessage", NOT_A_MEMBER):
        meaning = _NOT_A_MEMBER_TO_POST
    return kind(method, f"{code}: {meaning}" if meaning else code, code)


def _scopes(value: object) -> str:
    return value if isinstance(value, str) and re.fullmatch("[a-z0-9_.:, ]{1,400}", value) else ""
