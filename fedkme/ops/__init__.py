"""What operators see of a party: log lines, the service manager, metrics."""
