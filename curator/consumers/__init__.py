"""Consumers' calls: admission, and the services for summaries and releases."""
