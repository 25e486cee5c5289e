"""Batches that a database does in part.

Rule: at least one part of a batch is done and at least one held back, as a database does that
answers with success.
"""

from collections.abc import Mapping
from typing import Any

Requests = dict[str, Any]
"""`RequestItems` of a call, or what of it is unprocessed."""


LEFT = {"BatchWriteItem": "UnprocessedItems", "BatchGetItem": "UnprocessedKeys"}
"""Where the answer says what is left."""


def held_back(operation: str, body: Mapping[str, Any]) -> Requests:
    """The second half of what a batch asks of each table; empty where nothing can be held back."""
    if operation not in LEFT:
        return {}
    return {
        table: _with_parts(requests, _parts(requests)[_done(requests) :])
        for table, requests in body["RequestItems"].items()
        if len(_parts(requests)) > 1
    }


def without(rest: Requests, body: Mapping[str, Any]) -> dict[str, Any]:
    """The call without what is held back."""
    requests = {
        table: _with_parts(found, _parts(found)[: _done(found)]) if table in rest else found
        for table, found in body["RequestItems"].items()
    }
    return {**body, "RequestItems": requests}


def _parts(requests: Any) -> list[Any]:
    found: list[Any] = requests if isinstance(requests, list) else requests["Keys"]
    return found


def _done(requests: Any) -> int:
    return (len(_parts(requests)) + 1) // 2


def _with_parts(requests: Any, parts: list[Any]) -> Any:
    return parts if isinstance(requests, list) else {**requests, "Keys": parts}
