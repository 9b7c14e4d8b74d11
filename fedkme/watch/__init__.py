"""Runs of a curator for viewers: one value, and its views by role."""
