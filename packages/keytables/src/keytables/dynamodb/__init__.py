"""The DynamoDB engine: tables in DynamoDB, or in a database that speaks its protocol.

Rule: the outcome of a write whose response was lost is found out, not guessed. A call either may be
repeated without harm, or its outcome is read from the item it left.

    engine         opens the client, creates and drops tables
    descriptions   what the database says about a table
    table          one table: what is called on it
    writes         the order of writes, and what became of a conditional one
    queries        queries, scans and their pages
    templates      conditional writes as requests, compiled once
    expressions    conditions and updates in DynamoDB's language
    codec          items and values in DynamoDB's JSON
    table_client   calls about one table, batches, errors of the table interface
    client         one call, its response or a typed error
    retries        when a call is tried again, and how it ends
    late_puts      puts that may take effect after their result
    failures       failures of the database, for the owner of the engine
    hosts          the servers of a database, in rotation
    pool           the connections to one server
    connection     one connection
    signing        credentials and signatures
    aws            region, servers and credentials, as AWS's configuration has them
"""

from keytables.dynamodb.engine import DynamoEngine

__all__ = ["DynamoEngine"]
