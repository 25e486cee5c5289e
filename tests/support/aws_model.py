"""Requests of our client held against AWS's own description of DynamoDB, as botocore has it."""

import base64
from functools import cache
from typing import Any

import botocore.session
import orjson
from botocore.model import ServiceModel
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from keytables.dynamodb.client import ApiClient, ApiResponse
from keytables.dynamodb.retries import CALL_TIMEOUT


@cache
def dynamodb() -> ServiceModel:
    return botocore.session.Session().get_service_model("dynamodb")


def check_request(operation: str, body: bytes) -> None:
    """Fail unless AWS's client would send this body for that call: every member is known and of its
    type, no required one is missing, and its serializer renders the same.
    """
    model = dynamodb().operation_model(operation)
    assert model.input_shape is not None
    request = orjson.loads(body)
    arguments = _as_arguments(request, model.input_shape)
    report = ParamValidator().validate(arguments, model.input_shape)
    assert not report.has_errors(), f"{operation}: {report.generate_report()}"
    sent = create_serializer("json").serialize_to_request(arguments, model)
    assert orjson.loads(sent["body"]) == request, operation


def _as_arguments(value: Any, shape: Any) -> Any:
    """A value of a request as a caller of botocore gives it: with bytes in place of base64."""
    if shape.type_name == "structure":
        # An unknown member stays as it is, and is refused as unknown.
        return {
            name: _as_arguments(inner, shape.members[name]) if name in shape.members else inner
            for name, inner in value.items()
        }
    if shape.type_name == "map":
        return {name: _as_arguments(inner, shape.value) for name, inner in value.items()}
    if shape.type_name == "list":
        return [_as_arguments(inner, shape.member) for inner in value]
    return base64.b64decode(value, validate=True) if shape.type_name == "blob" else value


class CheckedClient:
    """Calls as ``client`` does, after every request was checked."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.close = client.close

    async def call(
        self,
        operation: str,
        body: bytes,
        *,
        table: str | None = None,
        time_limit: float = CALL_TIMEOUT,
    ) -> ApiResponse:
        check_request(operation, body)
        return await self._client.call(operation, body, table=table, time_limit=time_limit)
