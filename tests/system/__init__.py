"""Real processes and the real wire."""
