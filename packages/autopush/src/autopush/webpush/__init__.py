"""Web Push as values: identifiers, tokens, headers, VAPID, notifications and errors.

Nothing here does I/O: functions take what a request or a table row carries and return values, or
raise :class:`~autopush.webpush.errors.PushError` when a sender is at fault.
"""
