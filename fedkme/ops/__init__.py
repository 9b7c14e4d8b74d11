"""Operators' view of a party: log lines, the service manager, metrics."""
