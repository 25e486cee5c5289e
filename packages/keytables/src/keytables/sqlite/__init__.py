"""The embedded engine: tables in one SQLite file or several, shared by any number of processes.

Rule: the event loop is never blocked for longer than a millisecond. Reads run on the loop; writes
run there in short slices inside a transaction; whatever may wait for a lock or for the disk runs in
a thread.

    parts          opens a store of any number of files; an engine on several
    parted_table   a table in several files: each operation goes to one of them
    engine         opens one file, creates and drops tables
    catalog        the tables of a file, and their declarations
    table          one table: its writes and reads, and its indexes during a bulk load
    statements     a table in SQL: its schema, items as rows, single rows, queries
    write_queue    the kinds of writes, and those submitted, in order, until they are completed
    writer         group commit: transactions of queued writes, and the thread that commits them
    checkpoint     the log copied into the file
    reader         pages of queries, on the loop or in a thread
    sweeper        removal of expired items
    database       connections, checks of the file, errors and their report
    locks          file locks: fair among the writers of several processes, and for a store in use
    space          room on the disk: a full one, its reserve, and one that is nearly full
    layout         which files a store consists of, and which of them has a partition
    division       dividing a store into files, and merging them
    copies         copies of a store, made while it is in use; what of a store is damaged
    wiping         leaving nothing of what was deleted in the files of a store
"""

from keytables.sqlite.copies import StoreCheck, check_store
from keytables.sqlite.division import Division, divide_store
from keytables.sqlite.engine import SqliteEngine
from keytables.sqlite.parts import open_sqlite

__all__ = ["Division", "SqliteEngine", "StoreCheck", "check_store", "divide_store", "open_sqlite"]
