"""GCM, and the legacy API of FCM, for tests. Scripts and requests are by registration ID."""

import json

from support.scripted_provider import Answer, Asked

KEY_PREFIX = "key=AIza"
"""Begins the Authorization of every sender that has a key."""


def result(**members: str) -> Answer:
    """The reply about one device."""
    failed = "error" in members
    return {
        "document": {
            "multicast_id": 5_302_270_091_026_410_054,
            "success": int(not failed),
            "failure": int(failed),
            "canonical_ids": int("registration_id" in members),
            "results": [members],
        }
    }


def accepted() -> Answer:
    return result(message_id="0:1500000000000000%7031b2e6f9fd7ecd")


def judge(asked: Asked) -> tuple[str, Answer]:
    if asked["path"] not in ("/gcm/send", "/fcm/send"):
        return "", {"status": 404, "text": "Not Found"}
    try:
        message = json.loads(asked["body"])
        (device,) = message["registration_ids"]
        is_valid = (
            type(message["time_to_live"]) is int
            and type(message["dry_run"]) is bool
            and message["delay_while_idle"] is False
            and all(type(value) is str for value in message["data"].values())
            and asked["headers"]["content-type"] == "application/json"
        )
    except (ValueError, KeyError, TypeError):
        return "", {"status": 400, "text": "JSON_PARSING_ERROR"}
    if not asked["headers"].get("authorization", "").startswith(KEY_PREFIX):
        return device, {"status": 401, "text": "<HTML><TITLE>Unauthorized</TITLE></HTML>"}
    return device, accepted() if is_valid else {"status": 400, "text": "Field has wrong type"}
