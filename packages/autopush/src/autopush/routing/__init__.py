"""How a notification reaches its user: this worker's own sockets, another node, or the store."""
