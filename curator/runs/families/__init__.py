"""Families of summary protocols: each prepares its part of a run's plan and makes the run's body."""
