"""Networking without any knowledge of push: HTTP, WebSocket, links between nodes, timeouts."""
