"""What operators see: logs, metrics, crash reports.

Rule: telemetry never delays the service.
"""
