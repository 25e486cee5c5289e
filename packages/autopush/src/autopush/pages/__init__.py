"""The pages for operators and for what monitors the service: status, version, metrics, memory, and
the check of the logs. Several ports have them, of both kinds of node.
"""
