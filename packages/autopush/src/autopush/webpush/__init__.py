"""Web Push as values: identifiers, tokens, headers, VAPID, notifications and errors.

Nothing here does I/O. Functions raise :class:`~autopush.webpush.errors.PushError` when a sender is
at fault.
"""
