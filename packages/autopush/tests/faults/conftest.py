"""The engine of these tests is connected to its database through a fault proxy."""

from support.fault_fixtures import clock, database_port, open_engine, proxy

__all__ = ["clock", "database_port", "open_engine", "proxy"]
