"""State of a curator for the page to watch, from its store, its records and its reports."""
