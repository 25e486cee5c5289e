"""The stores that a service can have, by name."""

from collections.abc import Sequence

from support.cluster import CREDENTIALS, new_store
from support.postgres_servers import postgres


def store_of(name: str, schema: str) -> tuple[Sequence[str], dict[str, str]]:
    """Flags and variables for a new store. `schema`: on PostgreSQL."""
    if name == "dynamodb":
        return ("--store", new_store()), dict(CREDENTIALS)
    if name == "postgresql":
        return ("--store", f"{postgres().url()}&schema={schema}"), {}
    return (), {}
