"""Features: maps from rows to vectors whose inner products approximate a kernel."""
