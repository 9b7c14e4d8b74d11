"""Connections to owners: streams, sessions, keys, heads, and the register of owners."""
