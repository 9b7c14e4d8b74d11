"""Pooled rounds: the questions to owners who send sums, and the vectors that the owners send."""
