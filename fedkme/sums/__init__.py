"""Pooled rounds: what is asked of owners who send sums, and the vector that they send."""
