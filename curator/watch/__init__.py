"""State of a curator as those who watch it see it, from its store, its records and what it reports."""
