"""Connections to owners: their streams, sessions, keys, and who is in a run."""
