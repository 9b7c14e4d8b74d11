"""Families of summaries: each has its part of a run's plan, and a body."""
