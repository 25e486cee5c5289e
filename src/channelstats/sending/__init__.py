"""Reports that are posted to Slack."""
