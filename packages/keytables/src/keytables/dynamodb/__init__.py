"""The DynamoDB engine: tables in DynamoDB, or in a database that speaks its protocol.

Rule: the outcome of a write whose response was lost is determined, never guessed: a call either is
idempotent, or its outcome is read from the item it left.

    engine         opens the client, creates and drops tables, reports failures
    descriptions   descriptions of tables, and the request that creates one
    table          one table: its operations, and puts that may take effect late
    writes         the order of writes, their requests, and the outcome of conditional ones
    queries        queries, scans and their pages
    expressions    conditions and updates as DynamoDB's expressions
    codec          items and values in DynamoDB's JSON
    table_client   calls about one table, batches, errors of the table interface
    client         one call, its response or a typed error
    retries        when a call is tried again, and how it ends
    connections    the servers of a database and the connections to them
    signing        credentials and signatures
    aws            region, servers and credentials, from AWS's configuration
"""

from keytables.dynamodb.engine import DynamoEngine

__all__ = ["DynamoEngine"]
