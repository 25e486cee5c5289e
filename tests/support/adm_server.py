"""Amazon Device Messaging, for tests. Scripts and requests of tokens are by client ID, those of
messages by registration ID.
"""

import json
from itertools import count
from urllib.parse import parse_qs, unquote

from support.scripted_provider import Answer, Asked

TYPES = {
    "x-amzn-type-version": "com.amazon.device.messaging.ADMMessage@1.0",
    "x-amzn-accept-type": "com.amazon.device.messaging.ADMSendResult@1.0",
    "accept": "application/json",
    "content-type": "application/json",
}
LIFETIME = 3600

_numbers = count(1)
_issued: set[str] = set()


def secret_of(client_id: str) -> str:
    return f"secret-of-{client_id}"


def refusal(status: int, reason: str) -> Answer:
    return {"status": status, "document": {"reason": reason}}


def judge(asked: Asked) -> tuple[str, Answer]:
    if asked["path"] == "/auth/O2/token":
        return issue(asked)
    _, messaging, registrations, device, messages = asked["path"].split("/")
    assert (messaging, registrations, messages) == ("messaging", "registrations", "messages")
    return unquote(device), take(asked, unquote(device))


def issue(asked: Asked) -> tuple[str, Answer]:
    form = {name: value for name, (value,) in parse_qs(asked["body"]).items()}
    client_id = form.pop("client_id", "")
    if form != {
        "grant_type": "client_credentials",
        "scope": "messaging:push",
        "client_secret": secret_of(client_id),
    }:
        return client_id, {"status": 401, "document": {"error": "invalid_client"}}
    token = f"Atc|{client_id}|{next(_numbers)}"
    _issued.add(f"Bearer {token}")
    grant = {
        "access_token": token,
        "expires_in": LIFETIME,
        "scope": "messaging:push",
        "token_type": "bearer",
    }
    return client_id, {"document": grant}


def take(asked: Asked, device: str) -> Answer:
    if asked["headers"].get("authorization") not in _issued:
        return refusal(401, "AccessTokenExpired")
    if not TYPES.items() <= asked["headers"].items():
        return refusal(400, "InvalidType")
    message = json.loads(asked["body"])
    is_valid = all(type(value) is str for value in message["data"].values())
    if not is_valid or type(message["expiresAfter"]) is not int:
        return refusal(400, "InvalidData")
    return {"document": {"registrationID": device}}
