"""Runs of a curator as those who watch them may see them: one value, and its views by role."""
