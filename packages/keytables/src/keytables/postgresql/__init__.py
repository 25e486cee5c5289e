"""The PostgreSQL engine: tables in one schema of a database that any number of processes share.

Rule: the outcome of a write whose answer was lost is read, never guessed. Each commit leaves a row
with its ID, and the session that may still carry it out is ended before that row is looked for.

    engine         opens the store, creates and drops tables, removes what has expired
    table          one table: its writes and reads
    operations     the kinds of writes, and what several to one item leave together
    writer         group commit: one statement and one round trip for all that is ready
    commits        a connection that commits, and learns what became of a lost answer
    reads          items of many readers in one round trip; pages of queries
    statements     the SQL of a table
    columns        items as rows: columns of keys, expiry and indexes
    connections    sessions: what is checked and set in each, and how many there are
    failures       errors of the database and of its connections
    inspection     what an operator should know of a server
"""

from keytables.postgresql.engine import PostgresEngine

__all__ = ["PostgresEngine"]
