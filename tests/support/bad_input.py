"""Shared by tests of bad input: values of every kind."""

import json

CHANNEL = "2f1e3d4c-5b6a-4789-8abc-0123456789ab"
HUGE = "A" * 60_000
VALUES: dict[str, object] = {
    "null": None,
    "zero": 0,
    "number": -1.5,
    "big number": 10**30,
    "list": [1, [2], {"a": "b"}],
    "empty list": [],
    "object": {"a": {"b": [None]}},
    "empty object": {},
    "true": True,
    "false": False,
    "huge string": HUGE,
    "empty string": "",
    "wrong form": "af1883%&!@#*(",
    "control characters": "\0\r\n\x1b\x7f",
    "beyond ASCII": "ünïcödé-\U0001f510-\u202e",
    "deep list": json.loads("[" * 200 + "]" * 200),
}
"""One value of each kind that is no UUID, no key, no list of acks and no object of broadcasts."""


def path_of(endpoint: str) -> str:
    return "/" + endpoint.split("/", 3)[3]
