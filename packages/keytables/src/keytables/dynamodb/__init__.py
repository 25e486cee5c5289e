"""The DynamoDB engine: tables in DynamoDB, or in a database that speaks its protocol.

The one rule: what a reply that was lost did is found out, not guessed. Every call either repeats
without harm, or is judged by what it left.

    engine        opens the client, hands out tables
    tables        makes, describes and drops them
    descriptions  what the database says of a table
    handle        the writes of one table
    reads         the reads of one table
    order         writes under way, in order for each item
    writes        a write with a condition, from the call to its answer
    templates     requests, put into words once
    conditions    conditions as DynamoDB's expressions; what has expired is absent
    updates       updates as DynamoDB's expressions, and what they leave
    ranges        ranges of sort keys as key conditions
    pages         one page, from as many answers as it takes
    batches       many items in few calls
    pauses        when somebody has to ask again
    codec         items and values in DynamoDB's JSON
    remote        one table's way to the client; verdicts of the database as our errors
    client        one call, its answer or a typed error
    retries       when a call is tried again, and how it ends
    faults        what an answer means that is no success
    signature     signing requests
    credentials   who signs, and until when
    endpoint      where the database is
    nodes         the nodes of a cluster
    pool          the connections to one server
    connection    one connection
"""

from keytables.dynamodb.engine import DynamoEngine

__all__ = ["DynamoEngine"]
