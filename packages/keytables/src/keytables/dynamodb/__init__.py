"""The DynamoDB engine: tables in DynamoDB, or in a database that speaks its protocol.

Rule: the outcome of a write whose response was lost is found out, not guessed. A call either may be
repeated without harm, or its outcome is read from the item it left.

    engine         opens the client, creates and drops tables, reports failures
    descriptions   what the database says about a table
    table          one table: what is called on it, and puts that may take effect late
    writes         the order of writes, their requests, and what became of a conditional one
    queries        queries, scans and their pages
    expressions    conditions and updates in DynamoDB's language
    codec          items and values in DynamoDB's JSON
    table_client   calls about one table, batches, errors of the table interface
    client         one call, its response or a typed error
    retries        when a call is tried again, and how it ends
    connections    the servers of a database and the connections to them
    signing        credentials and signatures
    aws            region, servers and credentials, as AWS's configuration has them
"""

from keytables.dynamodb.engine import DynamoEngine

__all__ = ["DynamoEngine"]
