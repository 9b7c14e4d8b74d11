"""Reports on faults of peers for their maintainers; each file runs alone in the peer's environment."""
